"""Loads a checkpoint with TensorFlow: every tensor of both parts, with the checksums of the index, and the newest checkpoint by name.

    load_tensorflow.py FOLDER
"""

import pathlib
import sys

import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
parts = sorted(path.name.removesuffix(".index") for path in folder.glob("*.index"))
assert len(parts) == 2, parts
for part in parts:
    reader = tf.train.load_checkpoint(str(folder / part))
    shapes = reader.get_variable_to_shape_map()
    types = reader.get_variable_to_dtype_map()
    stored = 0
    for name, shape in shapes.items():
        tensor = reader.get_tensor(name)  # reads it and compares its checksum
        assert list(tensor.shape) == shape, name
        stored += tensor.size * types[name].size
    assert stored == (folder / f"{part}.data-00000-of-00001").stat().st_size, part
    expected = tf.float32 if "optim" in part else tf.bfloat16
    assert set(types.values()) == {expected}, types
assert tf.train.latest_checkpoint(str(folder)) == str(folder / parts[-1])
sys.exit(42)
