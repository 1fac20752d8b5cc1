"""Spans, instants and counters that show why a program does its I/O, in the same trace as that I/O.

    from dliotrace import span, traced, traced_iter

    for batch in traced_iter(loader, "fetch", cat="data", epoch=1):
        with span("step", cat="compute", epoch=1) as step:
            step.set(loss=train(batch))

Under ``python -m dliotrace run script.py`` (or ``dlio trace``) spans are recorded with the process's I/O. Otherwise,
DLIO_TRACE_DIR=DIR records only the spans. Without either, nothing is recorded and a span costs almost nothing.
``python -m dliotrace run --torch train.py`` adds spans to PyTorch without a change to the script.

``io_done("get", "s3://bucket/key", start, ...)`` records I/O that a library does without calls on files;
``dliotrace.objects.install()`` does it for boto3, s3fs and others.

A span belongs to the thread on which it started. Keyword arguments are its metadata; ``epoch`` and ``step`` have separate
columns in every table and report.
"""

try:
    from dliotrace._engine import Span, counter, describe, enabled, instant, io_done, now
except ImportError as _error:  # a processor or a Python without an engine in the wheel
    import sys as _sys

    print(f"dliotrace: cannot load the engine: {_error}; no spans are recorded", file=_sys.stderr)
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
    """Sets the rank of this process. Ranks started by MPI, Slurm or torchrun are detected automatically."""
    describe("rank", rank)
    if ranks is not None:
        describe("ranks", ranks)


def __getattr__(name):
    """Imports ``dliotrace.torch`` and ``dliotrace.objects`` on first use."""
    if name not in ("torch", "objects"):
        raise AttributeError(f"module 'dliotrace' has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"dliotrace.{name}")
