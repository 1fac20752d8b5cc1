"""A program that makes known calls only, for tracers of Python: ``known.py FOLDER``."""

import os
import sys

folder = sys.argv[1]
path = os.path.join(folder, "blocks")
fd = os.open(path, os.O_CREAT | os.O_RDWR)
for number in range(20):
    os.write(fd, bytes(1000))
for number in range(50):
    os.pread(fd, 100, number)
os.close(fd)
