"""Writes small data sets in DLIO's layout with NumPy, h5py, Pillow, pandas, pyarrow and, for tfrecord, byte by byte, for
`dlio bench` to read.

usage: write_datasets.py FOLDER FILES SAMPLES SIDE
"""

import struct
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

FOLDER, FILES, SAMPLES, SIDE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
random = np.random.default_rng(7)


def place(form, number, ending=""):
    folder = FOLDER / form / "train"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"img_{number:0{len(str(FILES))}}_of_{FILES}.{form}{ending}"


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def varint(number):
    more = []
    while number > 127:
        more.append(number & 127 | 128)
        number >>= 7
    return bytes([*more, number])


def field(number, content):
    """Returns a protocol buffer field of bytes."""
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def example(image):
    """Returns a tf.train.Example {image: bytes, size: int64}."""
    features = {
        b"image": field(1, field(1, image)),
        b"size": field(3, field(1, varint(len(image)))),
    }
    entries = b"".join(field(1, field(1, name) + field(2, value)) for name, value in features.items())
    return field(1, entries)


def record(content):
    length = struct.pack("<Q", len(content))
    return length + masked(length) + content + masked(content)


for number in range(FILES):
    samples = (random.random((SIDE, SIDE, SAMPLES), dtype=np.float32) * 255).astype(np.uint8)
    labels = [0] * SAMPLES
    np.savez(place("npz", number), x=samples, y=labels)
    np.save(place("npy", number), samples)
    with h5py.File(place("hdf5", number), "w", libver="latest") as file:
        file.create_dataset("records_0", data=samples.transpose(2, 0, 1))
        file.create_dataset("labels", data=labels)
    # Since version 3.16, h5py writes chunks in a layout that older libraries cannot open.
    for name, packed in {
        "hdf5-gzip": {"compression": "gzip", "compression_opts": 4},
        "hdf5-lzf": {"compression": "lzf", "shuffle": True},
        "hdf5-chunks": {"chunks": (2, 7, SIDE), "fletcher32": True},
        "hdf5-one": {"chunks": (SAMPLES, SIDE, SIDE), "compression": "gzip"},
    }.items():
        with h5py.File(place(name, number).with_suffix(".hdf5"), "w", libver="latest") as file:
            file.create_dataset("records_0", data=samples.transpose(2, 0, 1), **packed)
            file.create_dataset("labels", data=labels)
    rows = pd.DataFrame([samples[..., sample].ravel() for sample in range(SAMPLES)])
    rows.to_csv(place("csv", number), index=False, header=False)
    Image.fromarray(samples[..., 0]).save(place("jpeg", number))
    Image.fromarray(samples[..., 0]).save(place("png", number))
    for form in ["indexed_binary", "mmap_indexed_binary"]:
        path = place(form, number)
        path.write_bytes(samples.transpose(2, 0, 1).tobytes())
        size = SIDE * SIDE
        Path(f"{path}.off.idx").write_bytes(struct.pack(f"<{SAMPLES}Q", *range(0, size * SAMPLES, size)))
        Path(f"{path}.sz.idx").write_bytes(struct.pack(f"<{SAMPLES}Q", *[size] * SAMPLES))
    images = [samples[..., sample].tobytes() for sample in range(SAMPLES)]
    place("tfrecord", number).write_bytes(b"".join(record(example(image)) for image in images))
    pq.write_table(pa.table({"image": pa.array(images, pa.binary())}), place("parquet", number))
    frame = pd.DataFrame({"image": images, "label": range(SAMPLES)})
    frame.to_parquet(place("parquet-pandas", number).with_suffix(".parquet"), index=False, compression="snappy")
sys.exit(42)
