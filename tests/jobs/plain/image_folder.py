"""Images in one directory per class, decoded by two threads with Pillow."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy
from PIL import Image
from steps import compute, main

CLASSES, IMAGES, BATCH, EPOCHS, THREADS = 4, 40, 8, 2, 2


def make(folder):
    random = numpy.random.default_rng(5)
    for label in range(CLASSES):
        os.makedirs(os.path.join(folder, f"class{label}"), exist_ok=True)
        for number in range(IMAGES):
            width, height = (int(side) for side in random.integers(150, 350, 2))
            image = Image.fromarray(random.integers(0, 255, (height, width, 3), dtype="uint8"))
            image.save(os.path.join(folder, f"class{label}", f"{number:04d}.jpg"), quality=90)


def load(path):
    with Image.open(path) as image:
        return numpy.asarray(image.resize((64, 64)))


def train(folder, span):
    paths = sorted(os.path.join(below, name) for below, _, names in os.walk(folder) for name in names)
    with ThreadPoolExecutor(THREADS) as pool:
        for epoch in range(1, EPOCHS + 1):
            order = numpy.random.default_rng(epoch).permutation(len(paths))
            batches = order.reshape(-1, BATCH)
            submit = lambda batch: [pool.submit(load, paths[index]) for index in batch]
            following = submit(batches[0])
            for step in range(len(batches)):
                with span("fetch", "data", epoch=epoch, step=step):
                    numpy.stack([future.result() for future in following])
                    following = submit(batches[step + 1]) if step + 1 < len(batches) else []
                compute(0.02, span, epoch=epoch, step=step)


if __name__ == "__main__":
    main(make, train)
