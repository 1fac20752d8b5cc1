"""TFRecords read from front to back without TensorFlow, one file after another in shuffled order."""

import os
import struct

import numpy
from steps import compute, main

FILES, RECORDS, BATCH, EPOCHS = 8, 96, 16, 2


def path(folder, number):
    return os.path.join(folder, f"part-{number:05d}.tfrecord")


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(4)
    for number in range(FILES):
        with open(path(folder, number), "wb") as file:
            for _ in range(RECORDS):
                body = random.bytes(int(random.integers(20_000, 60_000)))
                file.write(struct.pack("<QI", len(body), 0) + body + bytes(4))


def records(folder, order):
    for number in order:
        with open(path(folder, number), "rb") as file:
            while head := file.read(12):
                length, _ = struct.unpack("<QI", head)
                body = file.read(length)
                file.read(4)
                yield body


def train(folder, span):
    for epoch in range(1, EPOCHS + 1):
        order = numpy.random.default_rng(epoch).permutation(FILES)
        stream = records(folder, order)
        for step in range(FILES * RECORDS // BATCH):
            with span("fetch", "data", epoch=epoch, step=step):
                sum(len(next(stream)) for _ in range(BATCH))
            compute(0.01, span, epoch=epoch, step=step)


if __name__ == "__main__":
    main(make, train)
