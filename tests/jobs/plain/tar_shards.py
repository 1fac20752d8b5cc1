"""Samples in tar files, read as streams, and the state of the model written after each epoch."""

import io
import os
import pickle
import tarfile

import numpy
from steps import compute, main

SHARDS, SAMPLES, BATCH, EPOCHS = 6, 40, 10, 2


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(7)
    for number in range(SHARDS):
        with tarfile.open(os.path.join(folder, f"shard-{number:04d}.tar"), "w") as shard:
            for sample in range(SAMPLES):
                body = random.bytes(int(random.integers(10_000, 80_000)))
                entry = tarfile.TarInfo(f"{sample:06d}.bin")
                entry.size = len(body)
                shard.addfile(entry, io.BytesIO(body))


def samples(folder, order):
    for number in order:
        with tarfile.open(os.path.join(folder, f"shard-{number:04d}.tar")) as shard:
            for entry in shard:
                yield shard.extractfile(entry).read()


def train(folder, span):
    state = numpy.zeros(500_000)
    for epoch in range(1, EPOCHS + 1):
        stream = samples(folder, numpy.random.default_rng(epoch).permutation(SHARDS))
        for step in range(SHARDS * SAMPLES // BATCH):
            with span("fetch", "data", epoch=epoch, step=step):
                sum(len(next(stream)) for _ in range(BATCH))
            compute(0.01, span, epoch=epoch, step=step)
        with span("save", "checkpoint", epoch=epoch, step=step), open(f"state-{epoch}.pkl", "wb") as file:
            pickle.dump(state, file)


if __name__ == "__main__":
    main(make, train)
