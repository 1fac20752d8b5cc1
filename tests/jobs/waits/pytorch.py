"""Jobs with PyTorch's DataLoader."""

import time

from clock import Batch, Trainer, Work, compute_for, now
from processes import FAST, SLOW, samples
from registry import job

WORK = Work()


class Samples:
    """A data set as PyTorch takes it. An item is a batch of the other jobs; ``content()`` is the delivered object."""

    def __init__(self, make, count, content=None):
        self.make, self.count, self.content = make, count, content

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        WORK.begin()
        total = self.make(index, WORK)
        made = self.content() if self.content else total
        return made, WORK.end()


def fast(index, work):
    return samples(FAST)(index, work)


def slow(index, work):
    return samples(SLOW)(index, work)


def collate(items):
    """A batch of one: its content as tensors, its record as it is."""
    import torch

    ((content, record),) = items
    if isinstance(content, int):
        content = torch.tensor([content])
    return Batch(content, record)


def start_worker(_):
    """A worker begins: its clock is its own."""
    global WORK
    WORK = Work()


def open_index(worker):
    """A worker that needs a while before its first batch."""
    time.sleep(0.15)
    start_worker(worker)


def train_torch(data, step, epochs=1, assumed=None, **options):
    """Trains with a model of one weight; a step takes ``step`` seconds on the "accelerator"."""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    options = {"num_workers": 2, "worker_init_fn": start_worker, **options}
    loader = DataLoader(data, batch_size=1, collate_fn=collate, **options)
    trainer = Trainer(assumed)
    for _ in range(epochs):
        for _ in trainer.fetch(loader):
            optimizer.zero_grad()
            (weight * 2.0).sum().backward()
            optimizer.step()
            trainer.compute(step)
    return trainer


@job("storage", SLOW, torch=True)
def torch_slow_files():
    """DataLoader, 2 workers, slow files | tensors pass through descriptors and a thread of the worker"""
    return train_torch(Samples(slow, 40), 0.018)


@job("storage", SLOW, torch=True)
def torch_slow_files_file_system():
    """slow files, tensors by `file_system` | files in /dev/shm are not data files"""
    import torch.multiprocessing

    torch.multiprocessing.set_sharing_strategy("file_system")
    return train_torch(Samples(slow, 40), 0.018)


@job("cpu", FAST, torch=True)
def torch_decode():
    """DataLoader, 2 workers, 10 ms of decoding per sample | CPU"""
    return train_torch(Samples(samples(FAST, decode=0.01), 40), 0.01)


@job("storage", SLOW, torch=True)
def torch_read_20_decode_10():
    """DataLoader, 2 workers, samples read in 20 ms and decoded in 10 ms | both take part"""
    return train_torch(Samples(samples(SLOW, decode=0.01, number=2), 60), 0.01)


@job("none", FAST, torch=True)
def torch_healthy():
    """DataLoader, 2 workers, batches come in time | healthy"""
    return train_torch(Samples(fast, 30), 0.08)


@job("handover", FAST, torch=True)
def torch_large_tensors():
    """DataLoader, batches of 24 MB as tensors in shared memory | memory is not storage; descriptors take their time"""
    import torch

    return train_torch(Samples(fast, 40, content=lambda: torch.zeros(6 << 20)), 0.03)


@job("handover", FAST, torch=True)
def torch_many_small_tensors():
    """DataLoader, 400 small tensors per batch | each passes as a descriptor"""
    import torch

    return train_torch(Samples(fast, 16, content=lambda: [torch.zeros(16) for _ in range(400)]), 0.01)


@job("handover", FAST, torch=True, never=("more readers",))
def torch_pickled_arrays():
    """DataLoader, batches of 24 MB as bytes | they are pickled through a pipe"""
    return train_torch(Samples(fast, 40, content=lambda: bytearray(24 << 20)), 0.004)


@job("start", FAST, torch=True)
def torch_new_workers_each_epoch():
    """DataLoader without `persistent_workers`, 5 epochs, workers need 150 ms to begin | their end is a wait, too"""
    return train_torch(Samples(fast, 8), 0.015, epochs=5, assumed="start", worker_init_fn=open_index)


@job("start", FAST, torch=True)
def torch_spawned_workers():
    """DataLoader with spawned workers | each imports PyTorch"""
    return train_torch(Samples(fast, 30), 0.015, assumed="start", multiprocessing_context="spawn", num_workers=1)


@job("storage", SLOW, torch=True)
def torch_no_workers_slow_files():
    """DataLoader with `num_workers=0`, slow files | no wait for another thread"""
    return train_torch(Samples(samples(SLOW, number=2), 40), 0.03, num_workers=0)


@job("cpu", torch=True)
def torch_decode_in_memory():
    """DataLoader, 2 workers compute on data in memory | no data file is opened"""

    def make(index, work):
        compute_for(0.03)
        return index

    return train_torch(Samples(make, 50), 0.008)


@job("storage", SLOW, torch=True)
def torch_iterable_slow_files():
    """an IterableDataset, 2 workers, slow files | workers are not told what to read"""
    import torch.utils.data

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info().id
            for index in range(worker, 40, 2):
                yield Samples(slow, 40)[index]

    return train_torch(Stream(), 0.018)


@job("handover", FAST, torch=True, never=("more readers",))
def torch_nested_lists():
    """DataLoader, batches of 50,000 numbers in lists and dictionaries | most of the wait is unpickling in the training thread"""
    boxes = [{"label": str(number % 80), "corners": [number + corner * 0.5 for corner in range(12)]} for number in range(4000)]

    def made():
        return [{**box, "corners": list(box["corners"])} for box in boxes]

    return train_torch(Samples(fast, 40, content=made), 0.02)


@job("start", FAST, torch=True, finding="workers-restart")
def torch_iterator_per_step():
    """`next(iter(loader))` in each step, 2 workers | each step forks workers, and takes one batch from them"""
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    loader = DataLoader(Samples(fast, 200), batch_size=1, collate_fn=collate, num_workers=2, worker_init_fn=start_worker)
    trainer = Trainer("start")
    for _ in range(25):
        begin = now()
        iterator = iter(loader)
        made = now()
        batch = next(iterator)
        taken = now()
        del iterator
        trainer.note(begin, made)
        trainer.note(made, taken, batch.record)
        trainer.note(taken, now())
        trainer.compute(0.02)
    return trainer
