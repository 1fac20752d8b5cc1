"""Spans of PyTorch's data loaders, around PyTorch's iterator and fetcher. Data sets, samplers and loaders of the program do not
change."""

import functools
import sys
import weakref

from dliotrace import ai
from dliotrace._engine import Batches, Fetch, ItemIterator, Items, Pass, Traced, hold
from dliotrace._patch import replace, when_imported
from dliotrace._torch_device import stream_of_model
from dliotrace._torch_shared import DATA, ITEM

_fetch = ai.data.fetch.in_phase(DATA)
_start = ai.data.start.in_phase(DATA)
_item = ai.data.item.in_phase(ITEM)
_items = ai.data("items").in_phase(ITEM)
_collate = ai.data("collate")


def instrument(worker_loop):
    """Adds spans to data loaders, whose workers then run `worker_loop`, which calls `work`."""
    from torch.utils.data import dataloader
    from torch.utils.data._utils import worker

    replace(dataloader.DataLoader, "__iter__", _with_pass)
    replace(dataloader._BaseDataLoaderIter, "__init__", _with_first_pass)
    replace(dataloader._BaseDataLoaderIter, "__next__", _with_fetch)
    replace(dataloader._DatasetKind, "create_fetcher", _with_items)
    replace(worker, "_worker_loop", lambda loop: _keep(loop, worker_loop))
    when_imported(
        "torchdata.stateful_dataloader.stateful_dataloader",
        lambda module: replace(module.StatefulDataLoader, "__iter__", _with_pass),
    )


# ---- the trainer's side ----------------------------------------------------------------------------------------------


class _Loaders:
    """Numbers loaders and counts their loops, without keeping references or calling their `__hash__`."""

    def __init__(self):
        self.known, self.count = {}, 0

    def next_pass(self, loader):
        """Returns the number of this loader and of its previous loops."""
        key = id(loader)
        entry = self.known.get(key)
        if entry is None:
            forget = weakref.ref(loader, lambda _: self.known.pop(key, None))
            entry = self.known[key] = [forget, self.count, 0]
            self.count += 1
        _, number, epoch = entry
        entry[2] += 1
        return {"loader": number, "epoch": epoch}


_loaders = _Loaders()


def _with_pass(iterate):
    @functools.wraps(iterate)
    def __iter__(self):
        this = _loaders.next_pass(self)
        with _start.with_meta(workers=getattr(self, "num_workers", 0), **this):
            iterator = iterate(self)
        if hasattr(iterator, "_dliotrace_pass"):
            iterator._dliotrace_pass = Pass(_fetch.with_meta(**this), iterator._num_yielded)
        return iterator

    return __iter__


def _with_first_pass(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self._dliotrace_pass = Pass(_fetch)

    return __init__


def _with_fetch(following):
    return functools.update_wrapper(Fetch(following, _late, stream_of_model()), following)


def _late(iterator):
    """Handles an iterator created before the patches."""
    if getattr(iterator, "_num_workers", 0) > 0:
        print(
            "dliotrace: a DataLoader started its workers before instrument() was called: they have no `item` spans; call it "
            "before the first loop over a loader",
            file=sys.stderr,
        )
    iterator._dliotrace_pass = Pass(_fetch, iterator._num_yielded)
    return iterator._dliotrace_pass


# ---- where samples are made ------------------------------------------------------------------------------------------


def _with_items(create):
    @functools.wraps(create)
    def create_fetcher(*args, **kwargs):
        from torch.utils.data import get_worker_info

        fetcher = create(*args, **kwargs)
        info = get_worker_info()
        worker = {} if info is None else {"worker": info.id}
        if hasattr(fetcher, "dataset_iter"):
            fetcher.dataset_iter = _items_of(fetcher.dataset_iter, _item.with_meta(**worker))
        else:
            fetcher.dataset = _view(fetcher.dataset, worker)
        fetcher.collate_fn = Traced(fetcher.collate_fn, _collate.with_meta(**worker))
        return fetcher

    return create_fetcher


def _items_of(iterator, span):
    items = ItemIterator(iterator, span)
    return _StatefulItems(iterator, items) if hasattr(iterator, "state_dict") else items


class _StatefulItems:
    """A resumable iterator: code that resumes it looks for these methods in its class."""

    def __init__(self, iterator, items):
        self._iterator, self._items = iterator, items

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._items)

    def state_dict(self):
        return self._iterator.state_dict()

    def load_state_dict(self, state):
        self._iterator.load_state_dict(state)

    def __getattr__(self, name):
        return getattr(self._iterator, name)


def _view(dataset, worker):
    """Returns a view of a data set in which making each sample is a span."""
    from torch.utils.data import Subset

    if type(dataset) is Subset:
        return _subset_view()(dataset, worker)
    batches = getattr(dataset, "__getitems__", None)
    return Items(dataset, _item.with_meta(**worker), Batches(batches, _items.with_meta(**worker)) if batches else None)


@functools.cache
def _subset_view():
    from torch.utils.data import Subset

    class View(Subset):
        """A live copy of a subset whose data set is replaced by a view."""

        def __init__(self, subset, worker):
            self._subset, self._worker, self._seen, self._made = subset, worker, None, None

        @property
        def indices(self):
            return self._subset.indices

        @property
        def dataset(self):
            present = self._subset.dataset
            if self._made is None or present is not self._seen:
                self._seen, self._made = present, _view(present, self._worker)
            return self._made

    return View


# ---- workers ---------------------------------------------------------------------------------------------------------

_loop = None


def _keep(loop, worker_loop):
    """Keeps PyTorch's loop for `work`, and returns its replacement."""
    global _loop
    _loop = loop
    return worker_loop


def work(*args, **kwargs):
    """Runs a worker. A worker makes data, so modules that transform samples do not count as training."""
    hold(DATA)
    return _plain_loop()(*args, **kwargs)


def _plain_loop():
    """Returns PyTorch's own loop, which is not replaced if nothing is recorded."""
    from torch.utils.data._utils import worker

    return _loop or worker._worker_loop
