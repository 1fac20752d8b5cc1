"""A loader like PyTorch's, without PyTorch: 4 worker processes read samples, the parent waits for batches and computes.

``python3 -m dliotrace run loader.py DIR [fork|spawn|forkserver]`` records the reads of the workers within their `item` spans; the
parent's `fetch` spans show how long it waited for them.
"""

import multiprocessing
import os
import sys

from dliotrace import ai, set_rank, span, traced_iter

SAMPLES, BATCH, WORKERS, EPOCHS = 32, 4, 4, 2
SAMPLE = 128 << 10


class Dataset:
    """One file per sample."""

    def __init__(self, folder):
        self.folder = folder

    def generate(self):
        os.makedirs(self.folder, exist_ok=True)
        for index in range(SAMPLES):
            with open(self.path(index), "wb") as file:
                file.write(bytes([index]) * SAMPLE)

    def path(self, index):
        return os.path.join(self.folder, f"sample-{index:03}.bin")

    @ai.data.item
    def __getitem__(self, index):
        with open(self.path(index), "rb", buffering=0) as file:
            return file.read()

    def __len__(self):
        return SAMPLES


def work(dataset, tasks, batches):
    """Runs a worker until there are no more tasks."""
    for epoch, step in iter(tasks.get, None):
        with span("batch", cat="data", epoch=epoch, step=step):
            samples = [dataset[index] for index in range(step * BATCH, (step + 1) * BATCH)]
        batches.put((step, sum(map(len, samples))))


class Loader:
    def __init__(self, dataset, context):
        self.dataset, self.tasks, self.batches = dataset, context.Queue(), context.Queue()
        arguments = (dataset, self.tasks, self.batches)
        self.workers = [context.Process(target=work, args=arguments) for _ in range(WORKERS)]
        for worker in self.workers:
            worker.start()

    def epoch(self, epoch):
        steps = len(self.dataset) // BATCH
        for step in range(steps):
            self.tasks.put((epoch, step))
        for _ in range(steps):
            yield self.batches.get()

    def close(self):
        for _ in self.workers:
            self.tasks.put(None)
        for worker in self.workers:
            worker.join()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: loader.py DIR [fork|spawn|forkserver]")
    folder, method = sys.argv[1], (sys.argv[2:] or ["fork"])[0]
    set_rank(0, 1)
    dataset = Dataset(folder)
    dataset.generate()
    loader, seen = Loader(dataset, multiprocessing.get_context(method)), 0
    for epoch in range(EPOCHS):
        with ai.pipeline.epoch(epoch=epoch):
            for step, size in traced_iter(loader.epoch(epoch), ai.data.fetch, epoch=epoch):
                with ai.compute.compute(epoch=epoch, step=step):
                    seen += sum(range(size // 64)) and size
    loader.close()
    print(f"{seen} bytes in {EPOCHS} epochs")


if __name__ == "__main__":
    main()
