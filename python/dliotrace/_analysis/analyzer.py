"""Finds dlio-analyze, and runs it."""

import os

import dliotrace
from dliotrace import _programs
from dliotrace._analysis.errors import TraceError, warn
from dliotrace._analysis.progress import Progress, is_visible

try:
    from dliotrace._engine import ArrowStream, analyzer_output
except ImportError as _error:  # see dliotrace._absent
    ArrowStream = analyzer_output = None

# The versions of programs that were checked, by path and time of modification.
_VERSIONS = {}


class Analyzer:
    """The dlio-analyze of this version."""

    def __init__(self, progress=None):
        if ArrowStream is None:
            raise TraceError("cannot analyze a trace: this package has no engine; install the wheel for this Python and processor")
        self.program = _programs.find("dlio-analyze")
        if self.program is None:
            raise TraceError(
                "cannot find dlio-analyze: this package was built without it, and PATH has none; install the wheel, or set "
                "DLIO_BIN_DIR to the directory of dlio-analyze"
            )
        self._progress = progress
        self._check_version()

    def text(self, arguments):
        """Returns what it prints. Its notes become warnings."""
        output, messages = self._started(analyzer_output, arguments)
        warn(messages)
        return output

    def stream(self, arguments):
        """Returns the rows that it prints."""
        return self._started(ArrowStream, ["--format", "arrow", *arguments])

    def _started(self, start, arguments):
        is_drawn = is_visible() if self._progress is None else self._progress
        options = ["--progress-lines"] if is_drawn else []
        try:
            return start(self.program, [*options, *arguments], Progress() if is_drawn else None)
        except OSError as error:
            raise TraceError(f"cannot run {self.program}: {error}; reinstall the package, or set DLIO_BIN_DIR") from error

    def _check_version(self):
        key = self.program, os.stat(self.program).st_mtime_ns
        if key not in _VERSIONS:
            try:
                printed, _ = analyzer_output(self.program, ["--version"], None)
            except OSError as error:
                raise TraceError(f"cannot run {self.program}: {error}; reinstall the package, or set DLIO_BIN_DIR") from error
            _VERSIONS[key] = printed.strip().rpartition(" ")[2]
        if _VERSIONS[key] != dliotrace.__version__:
            raise TraceError(
                f"cannot use {self.program}: its version is {_VERSIONS[key]!r}, and this package is {dliotrace.__version__}; install "
                "one version of both, or set DLIO_BIN_DIR to the directory of the matching dlio-analyze"
            )
