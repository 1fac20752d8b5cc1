"""Spans of collective calls, with the bytes of their tensor. The span of an asynchronous call (`async_op=True`) covers only
its start."""

import functools
import os

from dliotrace import ai, set_rank
from dliotrace._engine import busy
from dliotrace._patch import replace
from dliotrace._torch_shared import COMM, compiling, plain

_CALLS = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
)


def instrument():
    import torch

    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    for name in _CALLS:
        if hasattr(distributed_c10d, name):
            replace(distributed_c10d, name, functools.partial(_with_span, name))
            # Programs use it under this name.
            setattr(torch.distributed, name, getattr(distributed_c10d, name))
    replace(distributed_c10d, "init_process_group", _with_rank)
    torch.distributed.init_process_group = distributed_c10d.init_process_group


def _with_span(name, call):
    is_compiling, span = compiling(), ai.comm(name).in_phase(COMM)

    def collective(*args, **kwargs):
        if is_compiling() or busy(COMM):
            return call(*args, **kwargs)
        size = getattr(args[0] if args else kwargs.get("tensor"), "nbytes", None)
        with span if size is None else span.with_meta(bytes=size):
            return call(*args, **kwargs)

    return plain(functools.wraps(call)(collective))


def _with_rank(init):
    @functools.wraps(init)
    def init_process_group(*args, **kwargs):
        result = init(*args, **kwargs)
        # Launchers set it in the environment, where it was found at the start.
        if "RANK" not in os.environ:
            from torch import distributed

            set_rank(distributed.get_rank(), distributed.get_world_size())
        return result

    return init_process_group
