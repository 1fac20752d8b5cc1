"""Helpers of the tests: they run a program under the package and query its trace."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples", "python")


def analyzer():
    folder = os.environ.get("DLIO_BIN_DIR")
    return os.path.join(folder, "dlio-analyze") if folder else "dlio-analyze"


def clean_environment(**more):
    """Returns our environment without variables of a tracer."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DLIO_TRACE", "LD_PRELOAD"))}
    return {**kept, **more}


class Trace:
    """Queries the events of a trace directory with SQL."""

    def __init__(self, folder):
        self.folder = folder

    def ask(self, sql, form):
        command = [analyzer(), self.folder, "--sql", sql, "--format", form]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise AssertionError(f"dlio-analyze failed with {asked.returncode} on {sql}:\n{asked.stderr}")
        return asked.stdout.splitlines()

    def report(self):
        """Returns the report as JSON."""
        command = [analyzer(), self.folder, "--no-cache", "--format", "json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def rows(self, sql):
        return list(csv.DictReader(self.ask(sql, "csv")))

    def value(self, sql):
        (row,) = self.rows(sql)
        (value,) = row.values()
        return value

    def count(self, condition):
        return int(self.value(f"select count(*) as n from events where {condition}"))

    def arguments(self, condition):
        """Returns the metadata of each event in order of time; values are texts."""
        rows = self.ask(f"select args from events where {condition} order by ts, depth", "ndjson")
        return [json.loads(row).get("args") or {} for row in rows]


class TracedTest(unittest.TestCase):
    """Gives each test its own directory."""

    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="dliotrace-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        return self.path(name)

    def start(self, *command, cwd=None, **variables):
        return subprocess.run(
            command, cwd=cwd or self.folder, env=clean_environment(DLIO_TRACE_FORMAT="native", **variables),
            capture_output=True, text=True, check=False, timeout=120,
        )

    def run_traced(self, *program, status=0):
        """Runs a script under `python3 -m dliotrace run`; returns the trace and the output."""
        done = self.start(sys.executable, "-m", "dliotrace", "run", "-q", "-o", "trace", *program)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual([line for line in done.stderr.splitlines() if "dliotrace" in line and status == 0], [])
        return Trace(self.path("trace")), done.stdout

    def trace_code(self, code, status=0):
        return self.run_traced(self.write("program.py", code), status=status)
