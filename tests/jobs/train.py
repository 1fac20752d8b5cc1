"""A small training job with a known cause of waiting: ``train.py WAITS_FOR FOLDER [--torch] [--spans] [--start METHOD]``.

=========  ===========================================================================================================
decode     its workers decode on the CPU for longer than the training computes: it waits, and not for storage
storage    its workers read from a slow disk (slow_reads.c, loaded into the workers only): it waits for storage
nothing    batches are ready before the training requests them: it waits for neither
=========  ===========================================================================================================

Two workers (``--workers``) make the batches that the trainer requests or, with ``--shares``, a share that each knows from
the start. The trainer "computes" each batch for a fixed time, as if it waited for an accelerator. With ``--torch`` the
loader and the model are PyTorch's; without it both consist of processes and queues. With ``--spans`` the package dliotrace
records spans. Each run has equal samples and prints an equal sum in its last line, which is JSON with the times of the
trainer's own clock.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import time

EPOCHS, STEPS, BATCH = 2, 20, 4
SAMPLES, SIZE = STEPS * BATCH, 64 << 10
# Seconds: computing a batch, decoding a sample, reading one from the slow disk.
TIMES = {"decode": (0.01, 0.02, 0), "storage": (0.01, 0, 0.02), "nothing": (0.04, 0.001, 0)}
HERE = os.path.dirname(os.path.abspath(__file__))


class Samples:
    """One file per sample; a data set as PyTorch expects it."""

    def __init__(self, folder, decode):
        self.folder, self.decode = folder, decode

    def path(self, index):
        return os.path.join(self.folder, f"{index:04}.sample")

    def make(self):
        os.makedirs(self.folder, exist_ok=True)
        for index in range(SAMPLES):
            with open(self.path(index), "wb") as file:
                file.write(bytes([index % 251]) * SIZE)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        with open(self.path(index), "rb", buffering=0) as file:
            content = file.read(SIZE)
        compute_for(self.decode)
        return float(content[0] + content[-1])


def compute_for(seconds):
    """Keeps a core busy for this much of the thread's CPU time, however many other threads compete for it."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def slow_disk(folder, seconds):
    """Makes processes that are started from now on read slowly."""
    library = os.path.join(folder, "slow_reads.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, os.path.join(HERE, "slow_reads.c"), "-ldl"], check=True)
    os.environ["LD_PRELOAD"] = ":".join(filter(None, [os.environ.get("LD_PRELOAD"), library]))
    os.environ["DLIO_SLOW_READS_US"] = str(int(seconds * 1e6))


def context(start, preload=()):
    """How workers are started. A fork server is made ready first: loading libraries is not training."""
    chosen = multiprocessing.get_context(start)
    if start == "forkserver":
        chosen.set_forkserver_preload(["__main__", *preload])
        first = chosen.Process(target=time.thread_time)
        first.start()
        first.join()
    return chosen


class Clock:
    """The trainer's own measurement of its time."""

    def __init__(self):
        self.waited = self.computed = 0.0
        self.first = None
        self.start = time.perf_counter()

    def fetch(self, batches):
        """Yields the batches and measures the wait for each, including the wait for the end of the iteration."""
        batches = iter(batches)
        while True:
            start = time.perf_counter()
            batch = next(batches, None)
            took = time.perf_counter() - start
            self.waited += took
            self.first = took if self.first is None else self.first
            if batch is None:
                return
            yield batch

    def compute(self, work, *arguments):
        start = time.perf_counter()
        result = work(*arguments)
        self.computed += time.perf_counter() - start
        return result

    def seen(self):
        trained = time.perf_counter() - self.start
        return {"trained_s": trained, "waited_s": self.waited, "first_s": self.first, "computed_s": self.computed}


# ---- with processes and queues ---------------------------------------------------------------------------------------


def make_batches(samples, worker, tasks, batches, spans):
    """Runs a worker until there are no more tasks."""
    for epoch, step in iter(tasks.get, None):
        indices = range(step * BATCH, (step + 1) * BATCH)
        if spans:
            from dliotrace import ai

            made = []
            for index in indices:
                with ai.data.item(epoch=epoch, index=index, worker=worker):
                    made.append(samples[index])
        else:
            made = [samples[index] for index in indices]
        batches.put((step, made))


def make_share(samples, worker, workers, batches):
    """Runs a worker without requests: it makes its part of the batches of each epoch."""
    for _ in range(EPOCHS):
        for step in range(worker, STEPS, workers):
            batches.put([samples[index] for index in range(step * BATCH, (step + 1) * BATCH)])


class Shares:
    """A loader with as many batches ahead as the queue holds, in the order in which they are made."""

    def __init__(self, samples, context, workers):
        self.batches = context.Queue(2 * workers)
        self.workers = [
            context.Process(target=make_share, args=(samples, worker, workers, self.batches))
            for worker in range(workers)
        ]
        for worker in self.workers:
            worker.start()

    def epoch(self, _epoch):
        return (self.batches.get() for _ in range(STEPS))

    def close(self):
        for worker in self.workers:
            worker.join()


class Loader:
    """A loader with two batches ahead per worker, in order, like PyTorch's."""

    def __init__(self, samples, context, spans, workers):
        self.tasks, self.batches = [context.Queue() for _ in range(workers)], context.Queue()
        self.workers = [
            context.Process(target=make_batches, args=(samples, worker, tasks, self.batches, spans))
            for worker, tasks in enumerate(self.tasks)
        ]
        for worker in self.workers:
            worker.start()

    def epoch(self, epoch):
        ahead, early = min(2 * len(self.tasks), STEPS), {}
        for step in range(ahead):
            self.tasks[step % len(self.tasks)].put((epoch, step))
        for step in range(STEPS):
            while step not in early:
                made, batch = self.batches.get()
                early[made] = batch
            if step + ahead < STEPS:
                self.tasks[step % len(self.tasks)].put((epoch, step + ahead))
            yield early.pop(step)

    def close(self):
        for tasks in self.tasks:
            tasks.put(None)
        for worker in self.workers:
            worker.join()


def train_plainly(samples, compute, spans, start, workers, shares=False):
    def work(batch):
        time.sleep(compute)
        return sum(batch)

    loader = Shares(samples, context(start), workers) if shares else Loader(samples, context(start), spans, workers)
    total = 0.0
    clock = Clock()
    for epoch in range(EPOCHS):
        batches = loader.epoch(epoch)
        if spans:
            from dliotrace import ai, traced_iter

            batches, step = traced_iter(batches, ai.data.fetch, epoch=epoch), ai.compute.compute(work, epoch=epoch)
        else:
            step = work
        for batch in clock.fetch(batches):
            total += clock.compute(step, batch)
    seen = clock.seen()
    loader.close()
    return total, seen


# ---- with PyTorch ----------------------------------------------------------------------------------------------------


def train_with_torch(samples, compute, spans, start, workers):
    import torch
    from torch.utils.data import DataLoader

    if spans:
        import dliotrace.torch

        dliotrace.torch.instrument()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))

        def forward(self, batch):
            time.sleep(compute)
            return (self.weight * batch).sum()

    def work(batch):
        optimizer.zero_grad()
        loss = model(batch)
        loss.backward()
        optimizer.step()
        return float(batch.sum())

    torch.manual_seed(0)
    model, total = Model(), 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(
        samples, batch_size=BATCH, num_workers=workers, persistent_workers=True,
        multiprocessing_context=context(start, preload=["torch.utils.data"]),
    )
    clock = Clock()
    for _ in range(EPOCHS):
        for batch in clock.fetch(loader):
            total += clock.compute(work, batch)
    return total, clock.seen()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("waits_for", choices=TIMES)
    parser.add_argument("folder", help="directory for the samples")
    parser.add_argument("--torch", action="store_true", help="PyTorch's loader and a real model")
    parser.add_argument("--spans", action="store_true", help="record spans")
    parser.add_argument("--start", choices=multiprocessing.get_all_start_methods(), help="start method of workers")
    parser.add_argument("--workers", type=int, default=2, help="number of workers that make batches")
    parser.add_argument("--shares", action="store_true", help="assign batches to workers at the start")
    options = parser.parse_args()
    if options.shares and (options.torch or options.spans):
        parser.error("--shares is for the plain loader without spans")
    compute, decode, read = TIMES[options.waits_for]
    start = options.start or ("forkserver" if read else "fork")
    if read and start == "fork":
        parser.error("the slow disk is loaded when a program starts: its workers cannot be forked")
    samples = Samples(options.folder, decode)
    samples.make()
    if read:
        slow_disk(options.folder, read)
    if options.torch:
        total, seen = train_with_torch(samples, compute, options.spans, start, options.workers)
    else:
        total, seen = train_plainly(samples, compute, options.spans, start, options.workers, options.shares)
    print(json.dumps({"waits_for": options.waits_for, "batches": EPOCHS * STEPS, "total": total, **seen}))


if __name__ == "__main__":
    main()
