"""Spawned workers, the harder case: they know nothing of what was done to the parent."""

import multiprocessing
import types

_info = None


def get_worker_info():
    return _info


class Dataset:
    def __getitem__(self, index):
        raise NotImplementedError


def _worker(dataset, init, worker, tasks, batches):
    global _info
    _info = types.SimpleNamespace(id=worker, dataset=dataset)
    if init is not None:
        init(worker)
    for step, indices in iter(tasks.get, None):
        batches.put((step, [dataset[index] for index in indices]))


class _BaseDataLoaderIter:
    def __init__(self, loader):
        context = multiprocessing.get_context("spawn")
        self._num_yielded, self._steps = 0, -(-len(loader.dataset) // loader.batch_size)
        self._tasks, self._batches = context.Queue(), context.Queue()
        arguments = [(loader.dataset, loader.worker_init_fn, worker, self._tasks, self._batches) for worker in range(loader.num_workers)]
        self._workers = [context.Process(target=_worker, args=each) for each in arguments]
        for worker in self._workers:
            worker.start()
        for step in range(self._steps):
            self._tasks.put((step, range(step * loader.batch_size, (step + 1) * loader.batch_size)))

    def __iter__(self):
        return self

    def __next__(self):
        if self._num_yielded == self._steps:
            for _ in self._workers:
                self._tasks.put(None)
            for worker in self._workers:
                worker.join()
            raise StopIteration
        self._num_yielded += 1
        return self._batches.get()[1]


class DataLoader:
    def __init__(self, dataset, batch_size=1, num_workers=0, worker_init_fn=None):
        self.dataset, self.batch_size = dataset, batch_size
        self.num_workers, self.worker_init_fn = num_workers, worker_init_fn

    def __iter__(self):
        return _BaseDataLoaderIter(self)

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)
