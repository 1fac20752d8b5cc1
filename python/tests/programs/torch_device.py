"""A training with the real PyTorch, which believes that it uses a GPU: the driver is the simulated one of tests/device.

Usage: torch_device.py DRIVER MODE. Prints the number of events that the driver recorded.
"""

import ctypes
import os
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset

import dliotrace.torch

driver = ctypes.CDLL(sys.argv[1], use_errno=False)
driver.fake_launch.argtypes = [ctypes.c_void_p, ctypes.c_int64]
mode = sys.argv[2]


class Slow(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((4,), float(index))


class Model(torch.nn.Linear):
    def forward(self, batch):
        driver.fake_launch(None, 1_000_000)
        return super().forward(batch)


def use_device():
    driver.fake_start.argtypes = [ctypes.c_double]
    driver.fake_start(0.0)
    # `is_initialized` is looked up by name at the time of `instrument()`.
    torch._C._cuda_getDevice = lambda: 0
    torch._C._cuda_getCurrentRawStream = lambda device: 0
    parent = os.getpid()
    torch.cuda.is_initialized = lambda: os.getpid() == parent


def train(batches):
    model = Model(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()


def fetch_ahead(loader):
    """Yields batches that a thread fetches."""
    import queue

    ready = queue.Queue(2)

    def fetch():
        for batch in loader:
            ready.put(batch)
        ready.put(None)

    threading.Thread(target=fetch, daemon=True).start()
    yield from iter(ready.get, None)


def main():
    if mode != "cpu":
        use_device()
    dliotrace.torch.instrument()
    if mode == "ahead":
        # The model runs before the other thread fetches, as in most programs that validate first.
        Model(4, 1)(torch.zeros(4))
        train(fetch_ahead(DataLoader(Slow(), batch_size=4)))
    else:
        train(DataLoader(Slow(), batch_size=4, num_workers=0 if mode == "alone" else 2))
    print(driver.fake_recorded())


if __name__ == "__main__":
    main()
