"""The report of a trace: its JSON, with attributes and what a notebook shows."""

import difflib
import json
from dataclasses import dataclass

from dliotrace._analysis import page


class Record(dict):
    """An object of the report's JSON. ``record.name`` and ``record["name"]`` are the same."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            near = difflib.get_close_matches(name, self, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the fields are {', '.join(self)}"
            raise AttributeError(f"the report has no field {name!r} here{hint}", name=name, obj=self) from None

    def __dir__(self):
        return [*super().__dir__(), *self]


def parse(text):
    """Returns the JSON of dlio-analyze with records as objects."""
    return json.loads(text, object_hook=Record)


class Verdict(Record):
    """The verdict box of the report. Its text is the first line: ``print(verdict)``."""

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<dliotrace.Verdict: {self.text}>"

    def _repr_html_(self):
        sure = self.confidence and f"Sure: {self.confidence}: {self.confidence_reason}"
        return f"<p><b>{page.escape(self.text)}</b></p>{page.paragraph(self.why)}{page.paragraph(self.next and 'Next: ' + self.next)}{page.paragraph(sure)}"


@dataclass(frozen=True)
class Finding:
    """A rule that fired. ``worth`` is the time that the change can save at most, in ns, and ``worth_share`` its share of the run;
    None if unknown."""

    id: str
    severity: str
    confidence: str
    sentence: str
    worth: int | None
    worth_share: float | None
    evidence: list
    remedy: str
    verify: str

    def __str__(self):
        return f"{self.severity}: {self.sentence}"


class Findings(list):
    """The findings of a report, the most valuable first."""

    def _repr_html_(self):
        columns = [(name, "Utf8") for name in ("finding", "severity", "can save", "what was found", "remedy")]
        rows = [
            (found.id, found.severity, "" if found.worth is None else f"up to {found.worth / 1e9:.3g} s", found.sentence, found.remedy)
            for found in self
        ]
        return page.table(columns, rows)


def findings(report):
    """Returns the rules of a report that fired."""
    return Findings(
        Finding(
            found.id, found.severity, found.confidence, found.says, found.worth_ns, found.worth_share, found.evidence, found.remedy,
            found.verify,
        )
        for found in report.findings
        if found.state == "fired"
    )


class Summary(Record):
    """The report. Its fields are those of ``dlio-analyze --format json``; times are nanoseconds, sizes bytes, None is unknown."""

    def __repr__(self):
        return f"<dliotrace.Summary: {self.headline.text}>"

    def _repr_html_(self):
        seconds = lambda ns: "unknown" if ns is None else f"{ns / 1e9:,.3f} s"
        numbers = [
            ("events", f"{self.allocation.events:,}"),
            ("lost events", f"{self.allocation.lost:,}"),
            ("processes", f"{self.allocation.processes:,}"),
            ("time", seconds(self.time.total_ns)),
            ("I/O", seconds(self.time.io_ns)),
            ("compute", seconds(self.time.compute_ns)),
            ("files", f"{self.dataset.files:,}"),
            ("bytes read", f"{self.dataset.bytes_read:,}"),
            ("bytes written", f"{self.dataset.bytes_written:,}"),
        ]
        return Verdict(self.headline)._repr_html_() + page.table([("number", "Utf8"), ("value", "Utf8")], numbers)


class Comparison(Record):
    """Two runs compared. Its fields are those of ``dlio-analyze A --compare B --format json``."""

    def __str__(self):
        return "\n".join(self.answer)

    def __repr__(self):
        return f"<dliotrace.Comparison: {' '.join(self.answer)}>"

    def _repr_html_(self):
        columns = [(name, "Utf8") for name in ("metric", "before", "after", "change", "claim")]
        percent = lambda change: "" if change is None else f"{100 * change:+.1f} %"
        rows = [(m.metric, m.before, m.after, percent(m.change), m.claim) for m in self.metrics if m.claim != "unknown"]
        return page.paragraph(str(self)) + page.table(columns, rows)


class Page(str):
    """A report as an HTML page."""

    def _repr_html_(self):
        return page.frame(self)
