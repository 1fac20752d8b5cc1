"""Reads a file in small pieces for a number of seconds, in two processes: ``busy_reader.py FILE SECONDS``, for
tests/tests/machine.rs."""

import os
import sys
import time


def main():
    path, end = sys.argv[1], time.monotonic() + float(sys.argv[2])
    child = os.fork()
    file = os.open(path, os.O_RDONLY)
    while time.monotonic() < end:
        for place in range(100):
            os.pread(file, 1, place)
    if child:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
