"""Creates a directory for real programs to work on: make_tree.py FOLDER [SUBFOLDERS]. It contains 20 subdirectories [SUBFOLDERS] with a
hundred small files each, for tar, and arrays for a loader."""

import random
import struct
import sys
from pathlib import Path

FOLDERS, FILES, ARRAYS, SIDE = 20, 100, 200, 128


def array(side, noise):
    """Writes a .npy file with one byte per element."""
    head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({side}, {side}), }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + noise.randbytes(side * side)


def main():
    folder, noise = Path(sys.argv[1]), random.Random(1)
    for number in range(int(sys.argv[2]) if len(sys.argv) > 2 else FOLDERS):
        inner = folder / f"files/{number}"
        inner.mkdir(parents=True)
        for file in range(FILES):
            (inner / f"{file}.bin").write_bytes(noise.randbytes(noise.randrange(2048, 16384)))
    (folder / "arrays").mkdir()
    for number in range(ARRAYS):
        (folder / f"arrays/{number}.npy").write_bytes(array(SIDE, noise))


main()
