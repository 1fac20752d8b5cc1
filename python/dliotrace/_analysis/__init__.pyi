from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from os import PathLike
from typing import Any, TypeAlias

_Path: TypeAlias = str | PathLike[str]
_Time: TypeAlias = float | timedelta | str
_Numbers: TypeAlias = int | range | tuple[int, int] | str

class TraceError(Exception):
    """A trace cannot be analyzed."""

    status: int | None
    """The exit status of dlio-analyze, or minus a signal."""
    def __init__(self, message: str, status: int | None = None) -> None: ...
    @property
    def remedy(self) -> str:
        """What to do, if the message contains it; otherwise empty."""

class TraceWarning(UserWarning):
    """A note of dlio-analyze."""

class Record(dict[str, Any]):
    """An object of the report's JSON: `record.name` is `record["name"]`."""

    def __getattr__(self, name: str) -> Any: ...
    def __dir__(self) -> list[str]: ...

class Verdict(Record):
    """The verdict box; `str(verdict)` is its first line."""

    bottleneck: str
    share: float | None
    certainty: str
    text: str
    why: str
    next: str | None
    verify: str | None
    finding: str | None
    def _repr_html_(self) -> str: ...

class Summary(Record):
    """The report; SUMMARY.md documents its fields. Times are ns, sizes bytes, None is unknown."""

    headline: Record
    verdict: list[str]
    findings: list[Record]
    runs: list[Record]
    training: list[Record]
    waits: list[Record]
    what_if: Record | None
    steps: list[Record]
    epochs: list[Record]
    allocation: Record
    dataset: Record
    time: Record
    timeline: Record
    functions: list[Record]
    spans: list[Record]
    files: list[Record]
    processes: list[Record]
    ranks: list[Record]
    hosts: list[Record]
    machine: list[Record]
    damage: list[Record]
    def _repr_html_(self) -> str: ...

@dataclass(frozen=True)
class Finding:
    """A rule that fired."""

    id: str
    severity: str
    confidence: str
    sentence: str
    worth: int | None
    """The time in ns that the change can save at most."""
    worth_share: float | None
    """The same as a share of the run time."""
    evidence: list[str]
    remedy: str
    verify: str

class Findings(list[Finding]):
    """Findings, the most valuable first."""

    def _repr_html_(self) -> str: ...

class Comparison(Record):
    """Two runs compared; SUMMARY.md documents the fields."""

    answer: list[str]
    before: list[Record]
    after: list[Record]
    wall: Record
    findings: list[Record]
    metrics: list[Record]
    def _repr_html_(self) -> str: ...

class Page(str):
    """A report as an HTML page."""

    def _repr_html_(self) -> str: ...

class Rows(Iterable[dict[str, Any]]):
    """The result of a query, for libraries that read Arrow and for loops. It can be read several times."""

    sql: str
    def __init__(self, analyzer: Any, arguments: tuple[list[str], list[str]], sql: str) -> None: ...
    def start(self) -> Rows: ...
    @property
    def columns(self) -> list[str]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def _repr_html_(self) -> str: ...

class Trace:
    """A trace, or the part of it that filters select; `open` returns one."""

    def __init__(self, paths: list[str], filters: dict[str, Any], analyzer: Any) -> None: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def findings(self) -> Findings: ...
    def html(self, path: _Path | None = None, *, force: bool = False) -> Page | None: ...
    def compare(self, other: Trace) -> Comparison: ...
    def sql(self, query: str) -> Rows: ...
    def events(self, columns: Sequence[str] | None = None, where: str | None = None) -> Rows: ...
    @property
    def files(self) -> Rows: ...
    @property
    def processes(self) -> Rows: ...
    @property
    def hosts(self) -> Rows: ...
    @property
    def waits(self) -> Rows: ...
    @property
    def machine(self) -> Rows: ...
    @property
    def steps(self) -> Rows: ...
    def filter(
        self,
        *,
        run: int | str | None = ...,
        from_: _Time | datetime | None = ...,
        to: _Time | datetime | None = ...,
        for_: _Time | None = ...,
        epoch: _Numbers | None = ...,
        step: _Numbers | None = ...,
        pid: int | Iterable[int] | None = ...,
        rank: int | Iterable[int] | None = ...,
        file: str | Iterable[str] | None = ...,
        cat: str | Iterable[str] | None = ...,
        call: str | Iterable[str] | None = ...,
        min_dur: _Time | None = ...,
    ) -> Trace: ...
    def _repr_html_(self) -> str: ...

def open(path: _Path | Iterable[_Path] = "dlio-trace", *, run: int | str | None = "last", progress: bool | None = None) -> Trace: ...
