"""Reports, findings and rows of a trace in Python: ``dliotrace.open("dlio-trace")``.

    trace.py      Trace: its report, its rows and its parts
    rows.py       the result of a query, for Arrow libraries and for loops
    report.py     the report: attributes over its JSON, findings, comparisons
    selection.py  filters, as options of dlio-analyze
    page.py       HTML for notebooks
    analyzer.py   finds dlio-analyze, and runs it
    progress.py   progress on terminals and in notebooks
    errors.py     TraceError and TraceWarning

The package runs ``dlio-analyze``, which is in the same wheel, as a child process. Its rows come through a pipe as Arrow's stream
format; the compiled engine reads them (``src/analysis``). Nothing of this is imported before ``dliotrace.open`` is called.
"""

from dliotrace._analysis.errors import TraceError, TraceWarning
from dliotrace._analysis.report import Comparison, Finding, Findings, Page, Record, Summary, Verdict
from dliotrace._analysis.rows import Rows
from dliotrace._analysis.trace import Trace, open

__all__ = [
    "Comparison", "Finding", "Findings", "Page", "Record", "Rows", "Summary", "Trace", "TraceError", "TraceWarning", "Verdict",
    "open",
]
