"""Loads a checkpoint of torch.distributed.checkpoint with PyTorch itself.

usage: load_distributed.py FOLDER FILE...

torch.save has written each FILE. Checks that FOLDER contains all tensors of these files, bit by bit, under the name of the file and
the key in it. Exits with 42 on success.
"""

import os
import sys
import tempfile

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save


def flat(before: str, state: dict) -> dict:
    found = {}
    for key, value in state.items():
        found |= flat(f"{before}.{key}", value) if isinstance(value, dict) else {f"{before}.{key}": value}
    return found


folder, *files = sys.argv[1:]
expected = {}
for path in files:
    stem = os.path.basename(path).removesuffix(".pt")
    expected |= flat(stem, torch.load(path, weights_only=True))
found = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
assert found.keys() == expected.keys(), (found.keys() ^ expected.keys())
state = {name: torch.zeros_like(tensor) for name, tensor in expected.items()}
dcp.load(state, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
same = lambda one, other: one.dtype == other.dtype and torch.equal(one.view(torch.uint8), other.view(torch.uint8))  # noqa: E731
assert all(same(state[name], tensor) for name, tensor in expected.items())
with tempfile.TemporaryDirectory() as scratch:
    whole = os.path.join(scratch, "whole.pt")
    dcp_to_torch_save(folder, whole)
    for name, tensor in torch.load(whole, weights_only=True).items():
        assert same(tensor, expected[name]), name
sys.exit(42)
