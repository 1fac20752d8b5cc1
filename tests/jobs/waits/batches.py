"""Clocks for loaders of libraries: a batch begins when its first sample is requested, and ends when it is collated."""

import os
import threading

from clock import Batch, Record, Trainer, Work, now

_own = threading.local()


def run_delay():
    """The seconds for which this thread was ready to run and had no CPU, as the kernel counts them."""
    with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
        return int(file.read(64).split()[1]) / 1e9


class BatchWork(Work):
    """Divides a batch into CPU time, time without a free CPU, and ``rest`` for what remains."""

    is_open = False

    def sample(self):
        """Handles the request for a sample. The first one begins a batch."""
        if not self.is_open:
            self.is_open = True
            self.begin()
            self.delayed = run_delay()

    def batch(self):
        """Ends the batch. Returns its record."""
        self.is_open = False
        record = self.end()
        parts = dict(record[4])
        delay = min(run_delay() - self.delayed, parts[self.rest])
        parts[self.rest] -= delay
        parts["no-cpu"] = parts.get("no-cpu", 0.0) + delay
        return (*record[:4], parts, *record[5:])


def own(rest):
    """The clock of this thread of this process."""
    if getattr(_own, "process", None) != os.getpid():
        _own.process, _own.work = os.getpid(), BatchWork(rest)
    return _own.work


class Samples:
    """A data set of ``count`` samples: ``load(index)`` makes one. The cause of a reader's waits in it is ``rest``."""

    def __init__(self, load, count, rest):
        self.load, self.count, self.rest = load, count, rest

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        own(self.rest).sample()
        return self.load(index)


def stream(iterable, rest):
    """An IterableDataset of what ``iterable()`` yields in a worker."""
    from torch.utils.data import IterableDataset

    class Stream(IterableDataset):
        def __iter__(self):
            samples = iter(iterable())
            while True:
                own(rest).sample()
                sample = next(samples, None)
                if sample is None:
                    return
                yield sample

    return Stream()


class Collate:
    """Combines samples into one array, together with their record."""

    def __init__(self, rest, combine=None):
        self.rest, self.combine = rest, combine

    def __call__(self, samples):
        from torch.utils.data import default_collate

        content = (self.combine or default_collate)(samples)
        return Batch(content, own(self.rest).batch())


def of_workers(data, rest, batch=4, workers=2, combine=None, **options):
    """A DataLoader whose batches carry their records."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    return DataLoader(data, batch_size=batch, num_workers=workers, collate_fn=Collate(rest, combine), **options)


def started(loader, trainer):
    """Begins a pass over a loader: its workers are started here, which the training waits for."""
    start = now()
    iterator = iter(loader)
    trainer.note(start, now(), Record("", True, now(), now(), {}, None))
    return iterator


def train_model(loader, step, epochs=1, assumed=None):
    """Trains a model of one weight; a step takes ``step`` seconds on the "accelerator"."""
    import torch

    class Model(torch.nn.Module):
        """Its forward waits for the accelerator."""

        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self):
            trainer.compute(step)
            return self.weight * 2.0

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    trainer = Trainer(assumed)
    for _ in range(epochs):
        for _ in trainer.fetch(started(loader, trainer)):
            optimizer.zero_grad()
            model().sum().backward()
            optimizer.step()
    return trainer
