from dliotrace import ai as ai, objects as objects, report as report, torch as torch
from dliotrace._analysis import (
    Comparison as Comparison,
    Finding as Finding,
    Findings as Findings,
    Page as Page,
    Record as Record,
    Rows as Rows,
    Summary as Summary,
    Trace as Trace,
    TraceError as TraceError,
    TraceWarning as TraceWarning,
    Verdict as Verdict,
    open as open,
)
from dliotrace._engine import (
    Span as Span,
    counter as counter,
    describe as describe,
    enabled as enabled,
    instant as instant,
    io_done as io_done,
    now as now,
)
from dliotrace._wrap import traced as traced, traced_iter as traced_iter

span = Span
__version__: str
__all__ = [
    "Span",
    "ai",
    "counter",
    "describe",
    "enabled",
    "instant",
    "io_done",
    "now",
    "set_rank",
    "span",
    "traced",
    "traced_iter",
]

def set_rank(rank: int, ranks: int | None = None) -> None: ...
