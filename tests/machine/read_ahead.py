"""Trains with the files of a folder: ``read_ahead.py FOLDER {order,map,advised}``, for tests/tests/machine.rs.

``order`` reads each file in order in blocks of 64 KiB; ``map`` maps it and touches 20 pages at random, and ``advised`` tells the
kernel so. One file is one batch; none is in the page cache. The last line that it prints is the time that the training waited.
"""

import mmap
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs", "waits"))

from loaders import Loader, train  # noqa: E402

TOUCHED = 20


def read_in_order(file):
    while os.read(file, 1 << 16):
        pass


def touch(file, advised):
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as mapping:
        if advised:
            mapping.madvise(mmap.MADV_RANDOM)
        places = random.Random(0)
        return sum(mapping[places.randrange(len(mapping))] for _ in range(TOUCHED))


def main():
    folder, how = sys.argv[1:]
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sample"))
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)

    def make(index, work):
        with work.at("storage"):
            file = os.open(paths[index], os.O_RDONLY)
            read_in_order(file) if how == "order" else touch(file, how == "advised")
            os.close(file)

    print(train(Loader(make, len(paths), workers=2), 0.001).waited)


if __name__ == "__main__":
    main()
