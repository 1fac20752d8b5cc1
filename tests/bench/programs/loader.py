"""Reads a directory of arrays like the loader of a training job: loader.py FOLDER EPOCHS. Two worker processes, shuffled files."""

import multiprocessing
import random
import sys
from pathlib import Path

import numpy


def read(path):
    return int(numpy.load(path).sum())


def main():
    paths, epochs = sorted(Path(sys.argv[1]).iterdir()), int(sys.argv[2])
    order = random.Random(1)
    with multiprocessing.Pool(2) as pool:
        for _ in range(epochs):
            order.shuffle(paths)
            sum(pool.imap_unordered(read, paths, chunksize=4))
        pool.close()
        pool.join()


main()
