"""What a batch of PyTorch's loader costs: `torch_loader.py SAMPLES [traced]` prints nanoseconds of processor time a batch, the
least of many passes. Samples are numbers, and nothing is made of them: what is left is the loader, and what stands in it."""

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
