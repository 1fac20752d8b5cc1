"""Reads whole files into one buffer, one after another, as fast as Python can: plain_reads.py WORKERS EPOCHS FOLDER.

A benchmark that reads these files with this number of processes can hardly be faster. Prints the median of all epochs except
the first.
"""

import os
import statistics
import sys
import time
from pathlib import Path


def read(names):
    buffer = bytearray(max(map(os.path.getsize, names)))
    for name in names:
        with open(name, "rb", buffering=0) as file:
            file.readinto(buffer)


def epoch(names, workers):
    began = time.perf_counter()
    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            read(names[worker::workers])
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return time.perf_counter() - began


def main():
    workers, epochs, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    names = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    megabytes = sum(map(os.path.getsize, names)) / 1e6
    times = [epoch(names, workers) for _ in range(epochs)]
    rate = megabytes / statistics.median(times[1:])
    print(f"{rate:.1f} MB/s, {rate * 1e6 / 2**30:.3f} GiB/s")


main()
