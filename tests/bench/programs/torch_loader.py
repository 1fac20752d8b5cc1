"""Measures the cost of a batch of PyTorch's loader: `torch_loader.py SAMPLES [traced]` prints nanoseconds of CPU time per
batch, the minimum of many passes. Samples are numbers that nothing processes, so only the loader and its hooks are measured."""

import sys
import time

from torch.utils.data import DataLoader

PASSES, BATCHES = 40, 3_000


def main(samples, traced=""):
    if traced:
        import dliotrace.torch

        dliotrace.torch.instrument()
    loader = DataLoader([0.5] * (samples * BATCHES), batch_size=samples, collate_fn=list)
    least = float("inf")
    for _ in range(PASSES):
        begun = time.thread_time_ns()
        for _ in loader:
            pass
        least = min(least, (time.thread_time_ns() - begun) / BATCHES)
    print(f"{least:.0f} ns a batch")


main(int(sys.argv[1]), *sys.argv[2:])
