"""Spans, instants and counters: why a program does its I/O, on the clock and in the trace of that I/O.

    from dliotrace import span, traced, traced_iter

    for batch in traced_iter(loader, "fetch", cat="data", epoch=1):
        with span("step", cat="compute", epoch=1) as step:
            step.set(loss=train(batch))

Under ``python -m dliotrace run script.py`` (or ``dlio trace``) spans go into the trace of the process's I/O. Without it,
DLIO_TRACE_DIR=FOLDER records the spans alone, and without that nothing is recorded and a span costs next to nothing.
``python -m dliotrace run --torch train.py`` puts spans into PyTorch without a change to the script.

I/O that a library does without calls on files is told by ``io_done("get", "s3://bucket/key", start, ...)``; for boto3, s3fs
and others ``dliotrace.objects.install()`` does so.

A span belongs to the thread it began on. Keyword arguments are its metadata; ``epoch`` and ``step`` have columns of
their own in every table and report.
"""

try:
    from dliotrace._engine import Span, counter, describe, enabled, instant, io_done, now
except ImportError as _error:  # a processor or a Python without an engine in the wheel
    import sys as _sys

    print(f"dliotrace: the engine cannot be loaded ({_error}); no spans are recorded", file=_sys.stderr)
    from dliotrace._absent import Span, counter, describe, enabled, instant, io_done, now

from dliotrace import ai
from dliotrace._wrap import traced, traced_iter

span = Span

__version__ = "0.1.0"
__all__ = [
    "Span", "ai", "counter", "describe", "enabled", "instant", "io_done", "now", "set_rank", "span", "traced",
    "traced_iter",
]


def set_rank(rank, ranks=None):
    """Says which of the job's processes this is. Ranks started by MPI, Slurm or torchrun are known without it."""
    describe("rank", rank)
    if ranks is not None:
        describe("ranks", ranks)


def __getattr__(name):
    """``dliotrace.torch`` and ``dliotrace.objects`` are there without an import of their own, and loaded when asked for."""
    if name not in ("torch", "objects"):
        raise AttributeError(f"module 'dliotrace' has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"dliotrace.{name}")
