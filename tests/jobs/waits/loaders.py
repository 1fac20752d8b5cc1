"""Simple loaders: processes that make batches and deliver them through queues of multiprocessing."""

import multiprocessing
import os
import pickle
import struct
import time

from clock import Batch, Trainer, Work


def context(start="fork"):
    """How processes start. Starts the fork server first: it imports modules, which is not training."""
    chosen = multiprocessing.get_context(start)
    if start == "forkserver":
        chosen.set_forkserver_preload(["clock", "registry"])
        first = chosen.Process(target=os.getpid)
        first.start()
        first.join()
    return chosen


def make_batches(make, tasks, batches, prepare):
    """A reader, until there are no more tasks. It needs ``prepare`` seconds before the first."""
    work = Work()
    if prepare:
        time.sleep(prepare)
    for index in iter(tasks.get, None):
        work.begin()
        content = make(index, work)
        batches.put((index, content, work.end()))


class Loader:
    """Batches in order, ``ahead`` of them requested per worker, as PyTorch does it. ``make(index, work)`` makes one."""

    def __init__(self, make, steps, workers=2, ahead=2, start="fork", prepare=0.0):
        self.steps, self.ahead = steps, ahead * workers
        chosen = context(start)
        self.tasks, self.batches = [chosen.Queue() for _ in range(workers)], chosen.Queue()
        self.workers = [
            chosen.Process(target=make_batches, args=(make, tasks, self.batches, prepare)) for tasks in self.tasks
        ]
        for worker in self.workers:
            worker.start()

    def request(self, index):
        if index < self.steps:
            self.tasks[index % len(self.tasks)].put(index)

    def __iter__(self):
        early = {}
        for index in range(self.ahead):
            self.request(index)
        for index in range(self.steps):
            while index not in early:
                made, *batch = self.batches.get()
                early[made] = Batch(*batch)
            self.request(index + self.ahead)
            yield early.pop(index)

    def close(self):
        for tasks in self.tasks:
            tasks.put(None)
        for worker in self.workers:
            worker.join()


def train(loader, step, trainer=None):
    """Trains for all batches of the loader: ``step`` seconds each."""
    trainer = trainer or Trainer()
    for _ in trainer.fetch(loader):
        trainer.compute(step)
    if hasattr(loader, "close"):
        loader.close()
    return trainer


def train_with_new_workers(epochs, step, *arguments, **options):
    """Trains with a new loader per epoch. Creating its workers, and their end, is a part of the wait."""
    trainer = Trainer(assumed="start")

    def batches():
        loader = Loader(*arguments, **options)
        yield from loader
        loader.close()

    for _ in range(epochs):
        train(batches(), step, trainer)
    return trainer


def message(batch):
    """A batch as a message: the length of a pickle, and the pickle."""
    pickled = pickle.dumps(tuple(batch))
    return struct.pack("<I", len(pickled)) + pickled


def write_messages(make, steps, write):
    """A reader that sends batches as messages."""
    work = Work()
    for index in range(steps):
        work.begin()
        content = make(index, work)
        write(message((content, work.end())))


def read_messages(read, steps):
    """The other end."""
    for _ in range(steps):
        (length,) = struct.unpack("<I", read(4))
        yield Batch(*pickle.loads(read(length)))


def untraced():
    """The environment without a tracer, for what runs elsewhere in reality."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("DLIO_")}
    # The tracer follows children in any environment; this disables it in them.
    return {**kept, "DLIO_TRACE": "0"}
