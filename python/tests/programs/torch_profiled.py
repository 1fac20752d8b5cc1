"""A pass over a loader that PyTorch's profiler watches too: ``torch_profiled.py FILE``, where its trace goes."""

import sys

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

import dliotrace.torch

dliotrace.torch.instrument()
loader = DataLoader(TensorDataset(torch.arange(40.0)), batch_size=4)
with profile(activities=[ProfilerActivity.CPU]) as watched:
    for (batch,) in loader:
        (batch * 2).sum()
watched.export_chrome_trace(sys.argv[1])
