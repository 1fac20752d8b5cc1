"""A trace: its report, its rows and its parts."""

import json
import os
import tempfile
from pathlib import Path

from dliotrace._analysis import report
from dliotrace._analysis.analyzer import Analyzer
from dliotrace._analysis.rows import Rows
from dliotrace._analysis.selection import options

# Columns of the tables with nanoseconds since the Unix epoch, which become timestamps.
TIMES = {
    "events": ["ts"], "files": ["first_ts", "last_ts"], "processes": ["start_ts", "end_ts"], "hosts": [], "machine": ["ts"],
    "waits": ["start_ts", "end_ts"],
}  # fmt: skip

# A step lasts from the wait for its batch to the next wait. The spans that wait are recognized as in the report.
STEPS = """
with waits_of_steps as (
  select *, lead(ts) over (partition by proc, tid order by ts) - ts as until_next from events
  where layer = 'app' and class <> 'compute' and (starts_with(name, 'fetch') or starts_with(name, 'enumerate(DataLoader)')
    or starts_with(name, '[_TrainingEpochLoop].train_dataloader_next'))
)
select proc, tid, rank, epoch, step, arrow_cast(ts, 'Timestamp(Nanosecond, Some("UTC"))') as start_ts, until_next as dur,
  dur as wait_ns
from waits_of_steps where name <> 'fetch.end' order by ts
"""


def open(path="dlio-trace", *, run="last", progress=None):
    """Opens a trace; see ``dliotrace.open``."""
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    return Trace([os.fspath(path) for path in paths], {"run": run}, Analyzer(progress))


class Trace:
    """A trace, or the part of it that filters select. It reads nothing before a result is needed, and keeps the report."""

    def __init__(self, paths, filters, analyzer):
        self._paths, self._filters, self._analyzer = paths, filters, analyzer
        self._summary = None
        self._options = options(filters)

    def __repr__(self):
        chosen = "".join(f", {name}={value!r}" for name, value in self._filters.items())
        return f"dliotrace.open({', '.join(map(repr, self._paths))}{chosen})"

    def _repr_html_(self):
        return self.summary._repr_html_()

    # The report.

    @property
    def summary(self):
        """The report, as attributes: ``trace.summary.time.io_ns``."""
        if self._summary is None:
            self._summary = report.Summary(report.parse(self._report(["--format", "json"])))
        return self._summary

    @property
    def verdict(self):
        """The verdict of the report, with its numbers and the next step."""
        return report.Verdict(self.summary.headline)

    @property
    def findings(self):
        """What to change, the most valuable change first."""
        return report.findings(self.summary)

    def html(self, path=None, *, force=False):
        """Returns the report as an HTML page; or writes it to a file, which must not exist unless ``force`` is set."""
        page = report.Page(self._report(["--html", "-"]))
        if path is None:
            return page
        with Path(path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(page)
        return None

    def compare(self, other):
        """Compares the report with that of another trace, which is the later one."""
        with tempfile.TemporaryDirectory(prefix="dliotrace-") as directory:
            before, after = (os.path.join(directory, name) for name in ("before.json", "after.json"))
            for side, trace in ((before, self), (after, other)):
                Path(side).write_text(json.dumps(trace.summary), encoding="utf-8")
            compared = report.Comparison(report.parse(self._analyzer.text(["--format", "json", "--compare", before, "--", after])))
        for runs, trace in ((compared.before, self), (compared.after, other)):
            for run in runs:
                run["trace"] = " ".join(trace._paths)
        return compared

    # Rows.

    def sql(self, query):
        """Starts a query, and returns its rows. Columns have the types of SQL: times are integers, in ns."""
        return self._rows(query).start()

    def events(self, columns=None, where=None):
        """Starts a query of the events: of these columns, and those for which a condition in SQL holds."""
        return self._rows(_selected("events", columns, where)).start()

    @property
    def files(self):
        """One row per distinct path."""
        return self._rows(_selected("files"))

    @property
    def processes(self):
        """One row per process image."""
        return self._rows(_selected("processes"))

    @property
    def hosts(self):
        """One row per host."""
        return self._rows(_selected("hosts"))

    @property
    def waits(self):
        """One row per wait of a trainer; its causes add up to ``ns``."""
        return self._rows(_selected("waits"))

    @property
    def machine(self):
        """One row per changed value of a host counter."""
        return self._rows(_selected("machine"))

    @property
    def steps(self):
        """One row per step of a loop whose spans show its waits: ``start_ts``, ``dur`` until the next step, and ``wait_ns`` of it."""
        return self._rows(STEPS.strip())

    # Parts.

    def filter(self, **filters):
        """Returns a part of the trace. The filters are those of dlio-analyze; ``from_`` is ``--from``, ``for_`` is ``--for``."""
        return Trace(self._paths, {**self._filters, **filters}, self._analyzer)

    def _report(self, arguments):
        # The report of one directory covers the last run anyway, and it is cached only if nothing was selected.
        selected = self._options
        if self._filters == {"run": "last"} and len(self._paths) == 1 and os.path.exists(self._paths[0]):
            selected = []
        return self._analyzer.text([*arguments, *selected, "--", *self._paths])

    def _rows(self, sql):
        return Rows(self._analyzer, (self._options, ["--", *self._paths]), sql)


def _selected(table, columns=None, where=None):
    """Returns the query of a table."""
    if columns is None:
        replaced = ", ".join(map(_as_timestamp, TIMES[table]))
        chosen = f"* replace ({replaced})" if replaced else "*"
    else:
        chosen = ", ".join(_as_timestamp(name) if name in TIMES[table] else _quoted(name) for name in columns)
    condition = f" where {where}" if where else ""
    return f"select {chosen} from {table}{condition}"


def _as_timestamp(name):
    return f"arrow_cast({name}, 'Timestamp(Nanosecond, Some(\"UTC\"))') as {name}"


def _quoted(name):
    return '"' + name.replace('"', '""') + '"'
