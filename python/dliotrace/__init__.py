"""Spans, instants and counters that show why a program does its I/O, in the same trace as that I/O.

    from dliotrace import span, traced, traced_iter

    for batch in traced_iter(loader, "fetch", cat="data", epoch=1):
        with span("step", cat="compute", epoch=1) as step:
            step.set(loss=train(batch))

Under ``python3 -m dliotrace run script.py`` (or ``dlio trace``) spans are recorded with the process's I/O. Otherwise,
DLIO_TRACE_DIR=DIR records only the spans. Without either, nothing is recorded and a span costs almost nothing.
``python3 -m dliotrace run --torch train.py`` adds spans to PyTorch without a change to the script.

``io_done("get", "s3://bucket/key", start, ...)`` records I/O that a library does without file calls;
``dliotrace.objects.install()`` does it for boto3, s3fs and others.

``dliotrace.open("dlio-trace")`` analyzes a trace: its verdict, findings and tables. ``dliotrace.report.log_to(run)`` logs them to W&B,
MLflow or TensorBoard.

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

_MODULES = ("hugging_face", "lightning", "objects", "report", "torch")
_ANALYSIS = ("Comparison", "Finding", "Findings", "Page", "Record", "Rows", "Summary", "Trace", "TraceError", "TraceWarning", "Verdict")


def set_rank(rank, ranks=None):
    """Sets the rank of this process. Ranks started by MPI, Slurm or torchrun are detected automatically."""
    describe("rank", rank)
    if ranks is not None:
        describe("ranks", ranks)


def open(path="dlio-trace", *, run="last", progress=None):
    """Opens a trace to analyze it: a file, a directory or a pattern, or a list of them.

        trace = dliotrace.open("dlio-trace")
        print(trace.verdict)
        polars.DataFrame(trace.sql("select name, count(*) n from events group by name"))

    If a directory has several runs, ``run`` is one of them: a number from 1, "last", or "all" combined. Progress is shown on a
    terminal and in a notebook; ``progress`` turns it on or off. Raises TraceError without dlio-analyze of this version.
    """
    from dliotrace import _analysis

    return _analysis.open(path, run=run, progress=progress)


def __getattr__(name):
    """Imports ``dliotrace.torch`` and other modules, and the classes of ``dliotrace.open``, on first use."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"dliotrace.{name}")
    if name in _ANALYSIS:
        return getattr(importlib.import_module("dliotrace._analysis"), name)
    raise AttributeError(f"module 'dliotrace' has no attribute {name!r}")
