"""Writes samples with the library calls DLIO makes, without DLIO: write_like_dlio.py FORMAT FOLDER FILES SIDE.

A lower limit for the time of the Python benchmark, if that is not installed: only its NumPy, h5py and Pillow calls.
Needs numpy, h5py and pillow.
"""

import struct
import sys
from pathlib import Path

import numpy as np


def noise(side):
    return (np.random.default_rng().random((side, side, 1), dtype=np.float32) * 255).astype(np.uint8)


def npz(path, array):
    np.savez(path, x=array, y=[0])


def npy(path, array):
    np.save(path, array)


def hdf5(path, array):
    import h5py

    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("records_0", data=array[..., 0][np.newaxis])
        file.create_dataset("labels", data=[0])


def indexed_binary(path, array):
    Path(path).write_bytes(struct.pack(f"{array.size}B", *array.ravel()))


def csv(path, array):
    Path(path).write_text(",".join(map(str, array.ravel())) + "\n")


def image(path, array):
    from PIL import Image

    Image.fromarray(array[..., 0]).save(path)


WRITERS = {"npz": npz, "npy": npy, "hdf5": hdf5, "indexed_binary": indexed_binary, "csv": csv, "png": image, "jpeg": image}


def main():
    form, folder, files, side = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        WRITERS[form](str(folder / f"{number}.{form}"), noise(side))


main()
