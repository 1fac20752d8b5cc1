"""Arrays of different sizes, one per file, loaded by two worker processes ahead of the trainer."""

import multiprocessing
import os

import numpy
from steps import compute, main

FILES, BATCH, EPOCHS, WORKERS = 64, 4, 3, 2


def path(folder, number):
    return os.path.join(folder, f"volume{number:03d}.npy")


def make(folder):
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(1)
    for number in range(FILES):
        side = int(random.normal(700, 60))
        numpy.save(path(folder, number), random.integers(0, 255, (side, side), dtype="uint8"))


def work(folder, tasks, results):
    for number, batch in iter(tasks.get, None):
        arrays = [numpy.load(path(folder, index)) for index in batch]
        results.put((number, float(sum(array[0, 0] for array in arrays))))


def train(folder, span):
    tasks, results = multiprocessing.Queue(), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(folder, tasks, results)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for epoch in range(1, EPOCHS + 1):
        order = numpy.random.default_rng(epoch).permutation(FILES)
        batches = order.reshape(-1, BATCH).tolist()
        ahead = iter(enumerate(batches))
        for number, batch in [next(ahead) for _ in range(2 * WORKERS)]:
            tasks.put((number, batch))
        ready = {}
        for step in range(len(batches)):
            with span("fetch", "data", epoch=epoch, step=step):
                while step not in ready:
                    number, value = results.get()
                    ready[number] = value
                    following = next(ahead, None)
                    if following is not None:
                        tasks.put(following)
                ready.pop(step)
            compute(0.02, span, epoch=epoch, step=step)
    for _ in workers:
        tasks.put(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(make, train)
