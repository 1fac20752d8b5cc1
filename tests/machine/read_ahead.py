"""Trains with the files of a folder: ``read_ahead.py FOLDER {order,map,advised}``, for tests/tests/machine.rs.

``order`` reads each file in order in blocks of 64 KiB; ``map`` ten times maps it, touches 20 pages at random and drops it from the
page cache, and ``advised`` tells the kernel so. One file is one batch; none is in the page cache. The last line that it prints is
the time that the training waited.
"""

import mmap
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs", "waits"))

from loaders import Loader, train  # noqa: E402

ROUNDS = 10
TOUCHED = 20


def drop(file):
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def read_in_order(file):
    while os.read(file, 1 << 16):
        pass


def touch(file, advised):
    places = random.Random(0)
    for _ in range(ROUNDS):
        with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as mapping:
            if advised:
                mapping.madvise(mmap.MADV_RANDOM)
            for _ in range(TOUCHED):
                mapping[places.randrange(len(mapping))]
        drop(file)


def main():
    folder, how = sys.argv[1:]
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sample"))
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        drop(file)
        os.close(file)

    def make(index, work):
        with work.at("storage"):
            file = os.open(paths[index], os.O_RDONLY)
            read_in_order(file) if how == "order" else touch(file, how == "advised")
            os.close(file)

    print(train(Loader(make, len(paths), workers=2), 0.001).waited)


if __name__ == "__main__":
    main()
