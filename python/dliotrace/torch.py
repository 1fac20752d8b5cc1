"""Spans in PyTorch programs, without a change to them: call `instrument()` once, before the first DataLoader is made.

==============  ===============  =====================================================================================
span            category
==============  ===============  =====================================================================================
loader.start    data             `iter(loader)`: workers are started here
fetch           data             the training waits for a batch; `epoch` counts passes over this loader, `step` batches
item            data             `dataset[i]`, in the worker that makes it (each item of an IterableDataset)
optimizer.step  compute
checkpoint.*    checkpoint       `torch.save`, `torch.load`
==============  ===============  =====================================================================================

Workers are covered however they are started: the function that initializes them instruments them too.
"""

import functools
import weakref

from dliotrace import ai
from dliotrace._wrap import TracedIterator, wrap

_epochs = weakref.WeakKeyDictionary()


def instrument():
    """Puts spans into PyTorch. A second call changes nothing."""
    import torch
    from torch.utils.data import dataloader

    _replace(torch, "save", lambda save: wrap(save, ai.checkpoint.save))
    _replace(torch, "load", lambda load: wrap(load, ai.checkpoint.load))
    _replace(torch.optim.Optimizer, "__init__", _with_traced_step)
    _replace(dataloader.DataLoader, "__init__", _with_traced_items)
    _replace(dataloader.DataLoader, "__iter__", _with_epoch)
    _replace(dataloader._BaseDataLoaderIter, "__next__", _with_fetch)


def _replace(owner, name, make):
    """Replaces a function by what `make` makes of it, once."""
    present = getattr(owner, name)
    if not getattr(present, "_dliotrace", False):
        made = make(present)
        made._dliotrace = True
        setattr(owner, name, made)


def _replace_inherited(kind, name, make):
    """The same where the class that defines it has it, whichever of `kind`'s bases that is."""
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    if owner is not None:
        _replace(owner, name, make)


def _with_traced_step(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        _replace_inherited(type(self), "step", lambda step: wrap(step, ai.compute.step))

    return __init__


def _with_traced_items(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        trace_dataset(self.dataset)
        if getattr(self, "num_workers", 0) > 0:
            self.worker_init_fn = _WorkerInit(self.worker_init_fn)

    return __init__


def trace_dataset(dataset):
    """A span around each item this data set makes, in this process."""
    kind = type(dataset)
    if hasattr(kind, "__getitem__"):
        _replace_inherited(kind, "__getitem__", lambda get: wrap(get, ai.data.item))
    if hasattr(kind, "__getitems__"):
        _replace_inherited(kind, "__getitems__", lambda get: wrap(get, ai.data("items")))
    if not hasattr(kind, "__getitem__") and hasattr(kind, "__iter__"):
        _replace_inherited(kind, "__iter__", _with_items)


def _with_items(iterate):
    @functools.wraps(iterate)
    def __iter__(self):
        return TracedIterator(iterate(self), ai.data.item)

    return __iter__


class _WorkerInit:
    """What a worker runs first. A spawned worker knows nothing of this process, so it instruments itself."""

    def __init__(self, user):
        self.user = user

    def __call__(self, worker):
        from torch.utils.data import get_worker_info

        instrument()
        trace_dataset(get_worker_info().dataset)
        if self.user is not None:
            self.user(worker)


def _with_epoch(iterate):
    @functools.wraps(iterate)
    def __iter__(self):
        epoch = _epochs.get(self, -1) + 1
        _epochs[self] = epoch
        with ai.data.start(epoch=epoch):
            iterator = iterate(self)
        iterator._dliotrace_epoch = epoch
        return iterator

    return __iter__


def _with_fetch(following):
    @functools.wraps(following)
    def __next__(self):
        with ai.data.fetch(epoch=getattr(self, "_dliotrace_epoch", 0), step=getattr(self, "_num_yielded", 0)):
            return following(self)

    return __next__
