"""Writes the samples of four HDF5 files again with h5py, each in chunks of another kind, in the newest layout it has.

usage: repack_hdf5.py FOLDER
"""

import sys
from pathlib import Path

import h5py

KINDS = [
    {"compression": "gzip"},
    {"compression": "lzf", "shuffle": True},
    {"chunks": (2, 7, 11), "fletcher32": True},
    {"chunks": (5, 50, 50), "compression": "gzip", "fletcher32": True},
]
files = sorted(Path(sys.argv[1]).glob("*.hdf5"))
assert len(files) == len(KINDS), files
for path, kind in zip(files, KINDS):
    with h5py.File(path) as file:
        samples = file["records_0"][:]
    path.unlink()
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("records_0", data=samples, **kind)
        file.create_dataset("labels", data=[0] * len(samples))
sys.exit(42)
