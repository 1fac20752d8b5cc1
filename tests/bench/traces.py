"""The traces of a run: their size and number of calls, for each compared tracer."""

import gzip
import json
import os
import subprocess
from pathlib import Path


def size(folder):
    """Returns the total size of all files, including subdirectories."""
    return sum(os.path.getsize(path) for path in files(folder))


def files(folder):
    return [Path(at) / name for at, _, names in os.walk(folder) for name in names]


def events(kind, folder, analyze):
    """Returns the number of file calls and streams in the trace; nothing if they cannot be counted."""
    counters = {"dlio": by_summary, "dftracer": by_lines}
    return counters[kind](folder, analyze) if kind else None


def by_summary(folder, analyze):
    """Returns the summary's number for each function, which exists for recorded and for counted calls."""
    if not files(folder):
        return 0
    command = [analyze, str(folder), "--summary", "--format", "json", "--top", "1000", "--no-progress"]
    said = subprocess.run(command, capture_output=True, text=True)
    if said.returncode != 0:
        return None
    report = json.loads(said.stdout)
    rows = report["functions"] + report.get("past_files", [])
    return sum(row["count"] for row in rows if row["cat"] in ("posix", "stdio"))


def by_lines(folder, _):
    return sum(lines_of(path) for path in files(folder) if path.suffix in (".gz", ".pfw"))


def lines_of(path):
    """Counts the lines with file calls and streams, up to a truncated end."""
    count = 0
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")
    with opened as lines:
        try:
            for line in lines:
                count += b'"ph":1' in line and (b'"cat":"POSIX"' in line or b'"cat":"STDIO"' in line)
        except (EOFError, gzip.BadGzipFile, OSError):
            pass
    return count
