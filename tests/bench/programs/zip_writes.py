"""Saves random bytes like PyTorch, with NumPy and zipfile, uncompressed with a checksum: zip_writes.py FOLDER BYTES TIMES. Prints the rate."""

import statistics
import sys
import time
import zipfile

import numpy


def save(path, size, draw):
    began = time.perf_counter()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data/0", draw.bytes(size))
    return time.perf_counter() - began


def main():
    folder, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    draw = numpy.random.default_rng(1)
    taken = [save(f"{folder}/{number}", size, draw) for number in range(times)]
    print(f"{size / 2**30 / statistics.median(taken):.3f} GiB/s")


main()
