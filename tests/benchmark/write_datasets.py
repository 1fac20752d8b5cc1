"""Writes small data sets in DLIO's layout with NumPy, h5py, Pillow and pandas, for `dlio bench` to read.

usage: write_datasets.py FOLDER FILES SAMPLES SIDE
"""

import struct
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
from PIL import Image

FOLDER, FILES, SAMPLES, SIDE = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
random = np.random.default_rng(7)


def place(form, number, ending=""):
    folder = FOLDER / form / "train"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"img_{number:0{len(str(FILES))}}_of_{FILES}.{form}{ending}"


for number in range(FILES):
    samples = (random.random((SIDE, SIDE, SAMPLES), dtype=np.float32) * 255).astype(np.uint8)
    labels = [0] * SAMPLES
    np.savez(place("npz", number), x=samples, y=labels)
    np.save(place("npy", number), samples)
    with h5py.File(place("hdf5", number), "w", libver="latest") as file:
        file.create_dataset("records_0", data=samples.transpose(2, 0, 1))
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
sys.exit(42)
