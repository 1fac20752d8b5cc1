"""Spans of checkpoints with path and bytes: `torch.save` and `load`, torch.distributed.checkpoint, safetensors, and
Lightning, which writes the output of `torch.save` itself."""

import functools
import os

from dliotrace import ai
from dliotrace._engine import busy, file_size
from dliotrace._patch import replace, when_imported
from dliotrace._torch_shared import SAVE, compiling, plain

_save, _load = ai.checkpoint.save.in_phase(SAVE), ai.checkpoint.load.in_phase(SAVE)


def instrument():
    import torch
    from torch import serialization

    for name, span, place in (("save", _save, 1), ("load", _load, 0)):
        replace(serialization, name, functools.partial(_with_file, span, place, "f"))
        setattr(torch, name, getattr(serialization, name))
    when_imported("torch.distributed.checkpoint", _patch_distributed)
    when_imported("safetensors.torch", _patch_safetensors)
    for lightning in ("lightning.fabric.plugins.io.torch_io", "lightning_fabric.plugins.io.torch_io"):
        when_imported(lightning, _patch_lightning)


def _patch_safetensors(module):
    replace(module, "save_file", functools.partial(_with_file, _save, 1, "filename"))
    replace(module, "load_file", functools.partial(_with_file, _load, 0, "filename"))
    # For code that has imported `save_file` under another name.
    if hasattr(module, "serialize_file"):
        replace(module, "serialize_file", functools.partial(_with_file, _save, 1, "filename"))


def _patch_lightning(module):
    replace(module.TorchCheckpointIO, "save_checkpoint", functools.partial(_with_file, _save, 2, "path"))
    replace(module.TorchCheckpointIO, "load_checkpoint", functools.partial(_with_file, _load, 1, "path"))


def _with_file(span, place, name, function):
    """Wraps `function` in a span that records the file passed as argument number `place`, or by its name."""
    is_compiling = compiling()

    def call(*args, **kwargs):
        if is_compiling() or busy(SAVE):
            return function(*args, **kwargs)
        file = args[place] if len(args) > place else kwargs.get(name)
        path = _path(file)
        with span if path is None else span.with_meta(path=path) as running:
            result = function(*args, **kwargs)
            size = _size(file, path)
            if size is not None:
                running.set(bytes=size)
            return result

    return plain(functools.wraps(function)(call))


def _path(file):
    if isinstance(file, (str, os.PathLike)):
        return os.fsdecode(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else None


def _size(file, path):
    """Returns the size of the result: a file, or a buffer in memory."""
    if path is not None:
        return file_size(os.fsencode(path))
    buffer = getattr(file, "getbuffer", None)
    return None if buffer is None else buffer().nbytes


# ---- torch.distributed.checkpoint ------------------------------------------------------------------------------------


def _patch_distributed(module):
    from torch.distributed.checkpoint import state_dict_loader, state_dict_saver

    for owner, name, span in (
        (state_dict_saver, "save", _save), (state_dict_saver, "async_save", _save.with_meta(async_op=True)),
        (state_dict_loader, "load", _load),
    ):
        if hasattr(owner, name):
            replace(owner, name, functools.partial(_with_folder, span))
            setattr(module, name, getattr(owner, name))


def _with_folder(span, function):
    def call(*args, **kwargs):
        if busy(SAVE):
            return function(*args, **kwargs)
        storage = kwargs.get("storage_writer") or kwargs.get("storage_reader")
        folder = kwargs.get("checkpoint_id") or getattr(storage, "path", None)
        with span if folder is None else span.with_meta(path=str(folder)) as running:
            result = function(*args, **kwargs)
            size = _stored(result) if span is _save else _held(args[0] if args else kwargs.get("state_dict"))
            if size is not None:
                running.set(bytes=size)
            return result

    return plain(functools.wraps(function)(call))


def _stored(metadata):
    """Returns the bytes that this rank has written, according to the checkpoint's metadata."""
    from torch import distributed

    rank = distributed.get_rank() if distributed.is_initialized() else 0
    stored = getattr(metadata, "storage_data", None)
    if not isinstance(stored, dict):
        return None
    mine = [info for info in stored.values() if str(getattr(info, "relative_path", "")).startswith(f"__{rank}_")]
    return sum(info.length for info in mine)


def _held(state):
    """Returns the bytes of the tensors in a state dictionary."""
    if isinstance(state, dict):
        return sum(_held(value) for value in state.values())
    if isinstance(state, (list, tuple)):
        return sum(map(_held, state))
    return getattr(state, "nbytes", 0)
