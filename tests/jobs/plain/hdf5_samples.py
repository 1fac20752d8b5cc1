"""One HDF5 file of many samples, read in random order by the trainer itself."""

import os

import h5py
import numpy
from steps import compute, main

SAMPLES, BATCH, EPOCHS, SIDE = 512, 16, 2, 200


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(2)
    with h5py.File(os.path.join(folder, "events.h5"), "w") as file:
        file["images"] = random.integers(0, 255, (SAMPLES, SIDE, SIDE), dtype="uint8")
        file["labels"] = numpy.arange(SAMPLES)


def train(folder, span):
    with h5py.File(os.path.join(folder, "events.h5"), "r") as file:
        images = file["images"]
        for epoch in range(1, EPOCHS + 1):
            order = numpy.random.default_rng(epoch).permutation(SAMPLES)
            for step in range(SAMPLES // BATCH):
                with span("fetch", "data", epoch=epoch, step=step):
                    batch = [images[index] for index in order[step * BATCH : (step + 1) * BATCH]]
                    numpy.stack(batch)
                compute(0.02, span, epoch=epoch, step=step)


if __name__ == "__main__":
    main(make, train)
