#!/usr/bin/env python3
"""A training on a GPU whose loader takes a known time: `training.py CASE [--sync] [--repeats N] [--profile FILE]`.

Prints one line of JSON. ``--sync`` waits for the device before and after the work of each step, which then takes the time of the device
and nothing else. ``--repeats`` is the number of multiplications per step; without it, they are chosen for the case.
"""

import argparse
import contextlib
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset

SIZE = 4096
STEPS = 60

# Seconds that a batch and the kernels of a step take.
CASES = {
    "hidden": (0.005, 0.020),
    "starved": (0.020, 0.005),
    "item": (0.005, 0.020),
    "graph": (0.005, 0.020),
    "pageable": (0.020, 0.005),
}


class Slow(Dataset):
    def __init__(self, seconds, elements):
        self.seconds, self.sample = seconds, torch.rand(elements)

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return self.sample


class Model(torch.nn.Module):
    def __init__(self, repeats):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(SIZE, SIZE) / SIZE)
        self.repeats = repeats

    def forward(self, batch):
        for _ in range(self.repeats):
            batch = batch @ self.weight
        return batch.mean()


def repeats_for(seconds):
    """Returns the number of multiplications that take this long."""
    model, batch = Model(20).cuda(), torch.rand(SIZE, SIZE, device="cuda")
    with torch.no_grad():
        for _ in range(2):
            torch.cuda.synchronize()
            start = time.perf_counter()
            model(batch)
            torch.cuda.synchronize()
    return max(1, round(seconds / ((time.perf_counter() - start) / 20)))


def captured(model, batch):
    """Returns a function that replays the model as a graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        model(batch)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model(batch)
    return graph.replay


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--profile")
    typed = parser.parse_args()
    batch_seconds, kernel_seconds = CASES[typed.case]
    repeats = typed.repeats or repeats_for(kernel_seconds)
    model, work = Model(repeats).cuda(), torch.rand(SIZE, SIZE, device="cuda")
    # 64 MB that the host has not pinned, or a few bytes.
    loader = DataLoader(Slow(batch_seconds, 1 << 24 if typed.case == "pageable" else 16), batch_size=1)
    replay = captured(model, work) if typed.case == "graph" else None

    def step(batch):
        if typed.case == "pageable":
            batch.to("cuda")
        if replay is not None:
            replay()
            return
        with torch.no_grad():
            loss = model(work)
        if typed.case == "item":
            loss.item()

    step(torch.rand(1, 16))
    torch.cuda.synchronize()
    profiler = contextlib.nullcontext()
    if typed.profile:
        profiler = torch.profiler.profile(activities=list(torch.profiler.supported_activities()))
    computing = 0.0
    with profiler:
        for index, batch in enumerate(loader):
            if index == 0:
                torch.cuda.synchronize()
                start = time.perf_counter()
            if typed.sync:
                torch.cuda.synchronize()
                before = time.perf_counter()
            step(batch)
            if typed.sync:
                torch.cuda.synchronize()
                computing += time.perf_counter() - before
        torch.cuda.synchronize()
        wall = time.perf_counter() - start
    if typed.profile:
        profiler.export_chrome_trace(typed.profile)
    print(json.dumps({"repeats": repeats, "steps": STEPS, "wall_ns": wall * 1e9, "computing_ns": computing * 1e9}))


if __name__ == "__main__":
    main()
