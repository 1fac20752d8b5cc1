"""Writes random bytes in large chunks, like a checkpoint: plain_writes.py FOLDER BYTES TIMES. Prints the rate."""

import os
import statistics
import sys
import time

PIECE = 4 << 20


def write(path, size, piece):
    began = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(piece[: min(left, PIECE)])
    return time.perf_counter() - began


def main():
    folder, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    piece = memoryview(os.urandom(PIECE))
    taken = [write(f"{folder}/{number}", size, piece) for number in range(times)]
    print(f"{size / 2**30 / statistics.median(taken):.3f} GiB/s")


main()
