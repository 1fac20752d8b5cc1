"""Loads checkpoint files with the libraries of their formats: `torch.load(weights_only=True)` and safetensors.

usage: load_checkpoint.py FILE...

Checks that all files contain equal tensors (number of elements and type) and only finite values. Exits with 42 on success.
"""

import sys

import torch
from safetensors.torch import load_file


def tensors(state: dict) -> list:
    found = []
    for value in state.values():
        found.extend(tensors(value) if isinstance(value, dict) else [value])
    return found


def loaded(path: str) -> list:
    state = load_file(path) if path.endswith(".safetensors") else torch.load(path, weights_only=True)
    return sorted((tensor.numel(), str(tensor.dtype)) for tensor in tensors(state))


all_files = [loaded(path) for path in sys.argv[1:]]
assert all_files[0] and all(file == all_files[0] for file in all_files), all_files
sys.exit(42)
