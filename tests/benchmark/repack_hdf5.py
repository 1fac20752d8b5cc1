"""Rewrites the samples of HDF5 files with h5py, each file with another kind of chunks.

usage: repack_hdf5.py FOLDER LAYOUT [FILTER]

LAYOUT is h5py's libver. With FILTER, every file uses only that filter, and contains zeros: HDF5 does not compress noise.
"""

import sys
from pathlib import Path

import h5py

KINDS = [
    {"compression": "gzip"},
    {"compression": "lzf", "shuffle": True},
    {"chunks": (2, 7, 11), "fletcher32": True},
    {"chunks": (5, 50, 50), "compression": "gzip", "fletcher32": True},
    {"chunks": (1, 9, 50), "compression": "gzip", "maxshape": (None, 50, 70)},
    {"chunks": (2, 9, 8), "compression": "lzf", "maxshape": (5, None, 60)},
    {"chunks": (2, 9, 8), "fletcher32": True, "maxshape": (None, None, 60)},
    {"chunks": (1, 2, 3), "compression": "gzip", "shuffle": True, "maxshape": (None, None, None)},
    {"maxshape": (None, 50, 50)},
]
folder, layout, *filters = sys.argv[1:]
files = sorted(Path(folder).glob("*.hdf5"))
kinds = [{"compression": filters[0]}] * len(files) if filters else KINDS
assert len(files) == len(kinds), files
for path, kind in zip(files, kinds):
    with h5py.File(path) as file:
        samples = file["records_0"][:] * (0 if filters else 1)
    path.unlink()
    with h5py.File(path, "w", libver=layout) as file:
        file.create_dataset("records_0", data=samples, **kind)
        file.create_dataset("labels", data=[0] * len(samples))
sys.exit(42)
