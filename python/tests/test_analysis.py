"""Tests the analysis in Python: `dliotrace.open`."""

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import dliotrace
from dliotrace import _programs
from traces import EXAMPLES, HERE, Trace, TracedTest, analyzer, clean_environment

JOB = os.path.join(HERE, "..", "..", "tests", "jobs", "train.py")
# The Python with Polars, pandas, PyArrow and DuckDB.
READERS = os.environ.get("DLIO_TEST_PYTHON") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "dlio-venv/bin/python"
)
ENDLESS = "select * from generate_series(1, 1000000000000)"
SLOW = "select count(*) from generate_series(1, 3000000) a, generate_series(1, 3000000) b where a.value % 7 = b.value % 11"


def children(of=None):
    """Returns the ids of child processes that have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(parent) == (of or os.getpid()) and state != "Z":
            found.append(int(name))
    return found


def written(processes):
    """Returns how many bytes processes have written."""
    total = 0
    for process in processes:
        with open(f"/proc/{process}/io", encoding="utf-8") as file:
            total += int(dict(line.split(": ") for line in file)["wchar"])
    return total


class OfOneTraining(TracedTest):
    """Tests that read the trace of one small training."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="dliotrace-analysis-")
        cls.addClassCleanup(scratch.cleanup)
        cls.place = os.path.join(scratch.name, "trace")
        command = [sys.executable, "-m", "dliotrace", "run", "-q", "-o", cls.place, JOB, "storage", os.path.join(scratch.name, "data")]
        subprocess.run([*command, "--spans"], env=clean_environment(), check=True, stdout=subprocess.DEVNULL)
        cls.trace = dliotrace.open(cls.place)
        # Python's resource tracker ends after the program.
        while any(row["ended"] == "running" for row in cls.trace.processes):
            pass

    def printed(self, *arguments):
        return subprocess.run([analyzer(), self.place, *arguments], capture_output=True, text=True, check=True).stdout


class Report(OfOneTraining):
    def test_the_report_is_that_of_the_command(self):
        report = json.loads(self.printed("--format", "json"))
        self.assertEqual(dict(self.trace.summary), report)
        self.assertEqual(self.trace.summary.time.io_ns, report["time"]["io_ns"])
        self.assertEqual(self.trace.summary.training[0].readers[0].pid, report["training"][0]["readers"][0]["pid"])
        self.assertEqual(str(self.trace.verdict), report["headline"]["text"])
        self.assertEqual(self.trace.verdict.bottleneck, "storage-bound")

    def test_findings_are_the_rules_that_fired(self):
        fired = [rule for rule in self.trace.summary["findings"] if rule["state"] == "fired"]
        self.assertGreater(len(fired), 0)
        self.assertEqual([found.id for found in self.trace.findings], [rule["id"] for rule in fired])
        first = self.trace.findings[0]
        self.assertEqual(first.sentence, fired[0]["says"])
        self.assertEqual(first.worth, fired[0]["worth_ns"])
        self.assertTrue(first.remedy and first.verify and first.evidence and first.severity and first.confidence)

    def test_an_unknown_field_is_answered_with_the_nearest(self):
        with self.assertRaisesRegex(AttributeError, "no field 'io_n' here; did you mean 'io_ns'"):
            self.trace.summary.time.io_n

    def test_a_filter_selects_a_part(self):
        reads = self.trace.filter(call="read", from_=0)
        self.assertEqual({row["name"] for row in reads.sql("select name from events")}, {"read"})
        self.assertLess(reads.summary.allocation.events, self.trace.summary.allocation.events)
        pid = self.trace.summary.training[0].pid
        self.assertEqual({row["pid"] for row in self.trace.filter(pid=[pid]).events(["pid"])}, {pid})
        # A filter of a filter keeps both, and None removes one.
        both = reads.filter(pid=pid)
        self.assertEqual({(row["name"], row["pid"]) for row in both.events(["name", "pid"])}, {("read", pid)})
        self.assertEqual(both.filter(pid=None).summary, reads.summary)

    def test_a_filter_may_select_nothing(self):
        for nothing in (self.trace.filter(from_=1000), self.trace.filter(min_dur=100), self.trace.filter(pid=2**30)):
            self.assertEqual(nothing.verdict.bottleneck, "no-events")
            self.assertEqual(list(nothing.events(["ts"])), [])
        with self.assertRaisesRegex(dliotrace.TraceError, "no event has the name nosuch"):
            self.trace.filter(call="nosuch").summary

    def test_wrong_filters_are_rejected(self):
        with self.assertRaisesRegex(TypeError, "unknown filter 'ranks'; the filters are run, from_"):
            self.trace.filter(ranks=3)
        with self.assertRaisesRegex(dliotrace.TraceError, "soon"):
            self.trace.filter(from_="soon").summary
        with self.assertRaisesRegex(dliotrace.TraceError, "contains one run"):
            dliotrace.open(self.place, run=7).summary

    def test_a_comparison_has_both_sides_with_their_filters(self):
        compared = self.trace.compare(self.trace.filter(call="read"))
        metrics = {metric.metric: metric for metric in compared.metrics}
        self.assertEqual(compared.before[0].trace, self.place)
        self.assertGreater(compared.before[0].events, compared.after[0].events)
        self.assertIn("io.s", metrics)
        self.assertTrue(str(compared))

    def test_the_page_is_returned_or_written(self):
        page = self.trace.html()
        self.assertIn("</html>", page)
        self.assertIsNone(self.trace.html(self.path("report.html")))
        with self.assertRaises(FileExistsError):
            self.trace.html(self.path("report.html"))
        self.trace.html(self.path("report.html"), force=True)

    def test_notebooks_show_everything(self):
        shown = (
            self.trace, self.trace.verdict, self.trace.findings, self.trace.summary, self.trace.html(), self.trace.files,
            self.trace.compare(self.trace), self.trace.events(["ts", "file", "args"]),
        )  # fmt: skip
        for one in shown:
            self.assertRegex(one._repr_html_(), "^<(p|table|iframe)[ >]", type(one))
        self.assertRegex(self.trace.events(["ts"])._repr_html_(), r">20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} UTC</td>")
        self.assertIn("&lt;script&gt;", self.trace.sql("select '<script>' as a")._repr_html_())


class Rows(OfOneTraining):
    def test_rows_are_those_of_the_command(self):
        sql = "select ts, name, bytes, ret, depth, args, dur / 1e3 as us, bytes > 0 as moved, [1, null] as list from events order by ts, dur"
        printed = [json.loads(line) for line in self.printed("--sql", sql, "--format", "ndjson").splitlines()]
        rows = self.trace.sql(sql)
        self.assertEqual(list(rows), printed)
        self.assertEqual(rows.columns, ["ts", "name", "bytes", "ret", "depth", "args", "us", "moved", "list"])

    def test_tables_have_the_documented_columns(self):
        documented = self.printed_columns()
        for name in ("files", "processes", "hosts", "waits", "machine"):
            self.assertEqual(getattr(self.trace, name).columns, documented[name], name)
        self.assertEqual(self.trace.events().columns, documented["events"])
        trainer = self.trace.summary.training[0].proc
        steps = [row for row in self.trace.steps if row["proc"] == trainer]
        self.assertEqual(len(steps), self.trace.summary.steps[0].sum.steps)
        self.assertTrue(all(row["dur"] >= row["wait_ns"] > 0 for row in steps))
        (ends,) = self.trace.sql(f"select sum(dur) as ns from events where name = 'fetch.end' and proc = {trainer}")
        self.assertEqual(sum(row["wait_ns"] for row in steps) + ends["ns"], self.trace.summary.steps[0].sum.wait_ns)

    def printed_columns(self):
        columns = {}
        for row in self.trace.sql("select table_name, column_name from information_schema.columns where table_schema = 'public'"):
            columns.setdefault(row["table_name"], []).append(row["column_name"])
        return columns

    def test_times_of_tables_are_timestamps(self):
        types = dict(self.trace.events(["ts", "dur"])._started.columns)
        self.assertEqual(types, {"ts": 'Timestamp(ns, "UTC")', "dur": "Int64"})
        first, last = self.trace.summary.time.start_ts, self.trace.summary.time.end_ts
        self.assertTrue(all(first <= row["ts"] <= last for row in self.trace.events(["ts"])))

    def test_events_are_selected_by_columns_and_a_condition(self):
        rows = list(self.trace.events(["name", "bytes"], "class = 'read' and bytes > 0 -- as SQL"))
        self.assertGreater(len(rows), 0)
        self.assertTrue(all(list(row) == ["name", "bytes"] and row["bytes"] > 0 for row in rows))

    def test_an_empty_result_has_columns(self):
        rows = self.trace.sql("select name, dur from events where name = 'no such call'")
        self.assertEqual((rows.columns, list(rows)), (["name", "dur"], []))
        self.assertIn("<th>dur</th>", rows._repr_html_())

    def test_rows_are_read_several_times_and_at_once(self):
        rows = self.trace.sql("select ts from events order by ts")
        self.assertEqual(list(rows), list(rows))
        several = [iter(self.trace.sql(f"select value + {i} as n from generate_series(1, 100000)")) for i in range(6)]
        sums = [0] * 6
        for values in zip(*several):
            sums = [total + row["n"] for total, row in zip(sums, values)]
        self.assertEqual(sums, [100_000 * 100_001 // 2 + 100_000 * i for i in range(6)])

    def test_other_threads_may_read(self):
        counts = []
        threads = [threading.Thread(target=lambda: counts.append(sum(1 for _ in self.trace.events(["ts"])))) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(counts, [sum(1 for _ in self.trace.events(["ts"]))] * 3)

    def test_wrong_queries_are_explained_at_once(self):
        for sql, text in (
            ("select nam from events", "cannot run the query: unknown column nam; did you mean name?"),
            ("select (1 from events", "cannot run the query: line 1, column 11: expected ), found from"),
            ("select * from event", "unknown table event; did you mean events?"),
            ("", "is empty"),
        ):
            with self.assertRaises(dliotrace.TraceError) as raised:
                self.trace.sql(sql)
            self.assertIn(text, str(raised.exception))
        with self.assertRaisesRegex(dliotrace.TraceError, "unknown column duration; did you mean dur?") as raised:
            self.trace.events(["ts", "duration"])
        self.assertIn("did you mean dur?", raised.exception.remedy)
        self.assertEqual(raised.exception.status, 1)

    def test_types_without_a_python_object_are_named(self):
        with self.assertRaisesRegex(TypeError, "Decimal128.*cast it in the query"):
            list(self.trace.sql("select cast(1.5 as decimal(10, 2)) as price"))


class Processes(OfOneTraining):
    def test_an_interrupted_loop_leaves_no_process(self):
        rows = iter(self.trace.sql(ENDLESS))
        self.assertEqual([next(rows)["value"] for _ in range(3)], [1, 2, 3])
        self.assertEqual(len(children()), 1)
        rows.close()
        self.assertEqual(children(), [])

    def test_rows_that_are_not_read_leave_no_process(self):
        rows = self.trace.sql(ENDLESS)
        self.assertEqual(len(children()), 1)
        rows._repr_html_()
        self.assertEqual(children(), [])
        rows.start()
        capsule = rows.__arrow_c_stream__()
        self.assertEqual(len(children()), 1)
        del capsule
        self.assertEqual(children(), [])
        rows.start()
        del rows
        self.assertEqual(children(), [])

    def test_a_fork_does_not_end_the_query_of_its_parent(self):
        rows = iter(self.trace.sql(ENDLESS))
        next(rows)
        child = os.fork()
        if child == 0:
            rows.close()
            os._exit(0)
        os.waitpid(child, 0)
        for _ in range(200_000):
            next(rows)
        rows.close()

    def interrupted(self, code, python=sys.executable, after_bytes=0):
        """Runs a program, and interrupts it when it has printed a line and its query has written some bytes. Returns the rest."""
        program = self.write("interrupted.py", CHILDREN + code)
        environment = clean_environment(PYTHONPATH=os.path.dirname(os.path.dirname(dliotrace.__file__)))
        started = subprocess.Popen(
            [python, program, self.place], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.addCleanup(started.stdout.close)
        self.assertEqual(started.stdout.readline(), "ready\n")
        while written(children(started.pid)) < after_bytes:
            self.assertIsNone(started.poll())
        started.send_signal(signal.SIGINT)
        rest = started.stdout.read()
        self.assertEqual(started.wait(60), 0, rest)
        return rest

    def test_an_interrupt_ends_a_query(self):
        code = f"""
try:
    print("ready", flush=True)
    list(trace.sql({SLOW!r}))
except KeyboardInterrupt:
    print("interrupted", children())
"""
        self.assertEqual(self.interrupted(code), "interrupted []\n")

    def test_an_interrupt_ends_a_loop(self):
        code = f"""
try:
    for at, row in enumerate(trace.sql({ENDLESS!r})):
        if at == 10:
            print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", children())
"""
        self.assertEqual(self.interrupted(code), "interrupted []\n")

    @unittest.skipUnless(os.path.exists(READERS), "`tests/setup.sh test` installs the libraries")
    def test_an_interrupt_ends_a_library(self):
        for read in ("polars.DataFrame(rows)", "pyarrow.table(rows)"):
            code = f"""
import polars, pyarrow
rows = trace.sql({ENDLESS!r})
print("ready", flush=True)
try:
    try:
        {read}
    except Exception:
        # Libraries raise an error of their own. The interrupt follows it.
        print("an error")
    while True:
        pass
except KeyboardInterrupt:
    print("interrupted", children())
"""
            self.assertEqual(self.interrupted(code, READERS, after_bytes=64 << 20), "an error\ninterrupted []\n", read)


CHILDREN = f"""
import os, sys
import dliotrace

{ast.unparse(next(part for part in ast.parse(open(__file__).read()).body if getattr(part, "name", "") == "children"))}

trace = dliotrace.open(sys.argv[1])
"""


class Libraries(OfOneTraining):
    @unittest.skipUnless(os.path.exists(READERS), "`tests/setup.sh test` installs the libraries")
    def test_libraries_read_the_rows(self):
        program = os.path.join(HERE, "programs", "analysis_libraries.py")
        environment = clean_environment(PYTHONPATH=os.path.dirname(os.path.dirname(dliotrace.__file__)))
        done = subprocess.run([READERS, program, self.place], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        events = Trace(self.place).count("true")
        for library in ("polars", "pandas", "pyarrow", "duckdb"):
            self.assertIn(f"{library}: {events} events\n", done.stdout)

    @unittest.skipUnless(os.path.exists(READERS), "`tests/setup.sh test` installs the libraries")
    def test_the_notebook_runs(self):
        environment = clean_environment(PYTHONPATH=os.path.dirname(os.path.dirname(dliotrace.__file__)))
        runner = os.path.join(HERE, "programs", "notebook.py")
        command = [READERS, runner, os.path.join(EXAMPLES, "analysis.ipynb")]
        done = subprocess.run(command, env=environment, cwd=self.path(""), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # The cause depends on the load of the host.
        self.assertRegex(done.stdout[:1000], r"<b>[A-Z-]+-(BOUND|LIMITED).*: \d+ % of training is spent waiting for data")
        self.assertIn("less than the baseline", done.stdout.partition("<iframe")[0])


class OtherTraces(TracedTest):
    def test_without_a_trace_the_error_has_a_remedy(self):
        with self.assertRaises(dliotrace.TraceError) as raised:
            dliotrace.open(self.path("none")).summary
        self.assertIn(self.path("none"), str(raised.exception))
        os.mkdir(self.path("empty"))
        with self.assertRaises(dliotrace.TraceError) as raised:
            dliotrace.open(self.path("empty")).sql("select 1")
        self.assertIn("dlio trace", str(raised.exception))

    def test_one_of_several_runs_is_read(self):
        for number in (1, 2, 3):
            code = f"import dliotrace\nfor i in range({number}):\n    dliotrace.instant('mark')"
            # Programs that one parent starts within a second are one run.
            traced = f"{sys.executable} -m dliotrace run -q -o trace {self.write('program.py', code)}; true"
            self.assertEqual(self.start("sh", "-c", traced).returncode, 0)
        marks = "select count(*) as n from events where name = 'mark'"
        for run, count in (("last", 3), (1, 1), (2, 2), ("all", 6)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertEqual([row["n"] for row in dliotrace.open(self.path("trace"), run=run).sql(marks)], [count])
        reported = [run.reported for run in dliotrace.open(self.path("trace")).summary.runs]
        self.assertEqual(reported, [False, False, True])
        # Without a choice it is that of the command, which warns.
        with self.assertWarnsRegex(dliotrace.TraceWarning, "contains 3 runs"):
            rows = dliotrace.open(self.path("trace"), run=None).sql(marks)
        self.assertEqual([row["n"] for row in rows], [6])

    def test_a_trace_that_is_being_written_is_read(self):
        code = "import dliotrace, sys\ndliotrace.instant('mark')\nprint('ready', flush=True)\nsys.stdin.read()"
        command = [sys.executable, "-m", "dliotrace", "run", "-q", "-o", self.path("trace"), self.write("program.py", code)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as running:
            running.stdout.readline()
            trace = dliotrace.open(self.path("trace"))
            self.assertEqual([row["n"] for row in trace.sql("select count(*) as n from events where name = 'mark'")], [1])
            self.assertEqual([process.ended for process in trace.summary.processes], ["running"])
            running.stdin.close()
        self.assertEqual([row["ended"] for row in trace.processes], ["exit 0"])

    def test_damage_is_a_warning(self):
        self.trace_code("import dliotrace\nfor i in range(5000):\n    dliotrace.instant('mark')")
        (name,) = [name for name in os.listdir(self.path("trace")) if name.endswith(".dlt")]
        os.truncate(os.path.join(self.path("trace"), name), os.path.getsize(os.path.join(self.path("trace"), name)) * 2 // 3)
        with self.assertWarns(dliotrace.TraceWarning):
            list(dliotrace.open(self.path("trace")).events(["ts"]))


class Programs(TracedTest):
    def script(self, name, text):
        path = self.write(name, text)
        os.chmod(path, 0o755)
        return path

    def opened_with(self, **variables):
        """Opens a trace without the programs of this package."""
        with mock.patch.dict(os.environ, variables), mock.patch.object(_programs, "HERE", self.path("none")):
            return dliotrace.open(self.path("trace"))

    def test_a_missing_analyzer_is_reported(self):
        with self.assertRaisesRegex(dliotrace.TraceError, "cannot find dlio-analyze: .*set DLIO_BIN_DIR"):
            self.opened_with(DLIO_BIN_DIR="", PATH=self.path(""))

    def test_an_analyzer_of_another_version_is_rejected(self):
        path = self.script("dlio-analyze", "#!/bin/sh\necho dlio-analyze 0.0.7\n")
        with self.assertRaisesRegex(dliotrace.TraceError, f"cannot use {path}: its version is '0.0.7', and this package is"):
            self.opened_with(DLIO_BIN_DIR=self.path(""))

    def test_a_program_that_cannot_run_is_reported(self):
        self.script("dlio-analyze", "\x7fELF of another processor")
        with self.assertRaisesRegex(dliotrace.TraceError, "cannot run .*dlio-analyze: .*set DLIO_BIN_DIR"):
            self.opened_with(DLIO_BIN_DIR=self.path(""))

    def test_the_script_of_this_package_is_not_the_program(self):
        self.script("dlio-analyze", "#!/usr/bin/python3\nfrom dliotrace.__main__ import dlio_analyze\n")
        directory = os.path.dirname(os.path.abspath(analyzer())) if os.environ.get("DLIO_BIN_DIR") else None
        if directory is None:
            self.skipTest("DLIO_BIN_DIR is not set")
        self.assertEqual(
            self.opened_with(DLIO_BIN_DIR="", PATH=f"{self.path('')}:{directory}")._analyzer.program, os.path.join(directory, "dlio-analyze")
        )

    def test_tracing_programs_do_not_import_the_analysis(self):
        code = "import sys, dliotrace; print([name for name in sys.modules if name.startswith(('dliotrace._an', 'dliotrace._prog', 'json'))])"
        done = self.start(sys.executable, "-c", code)
        self.assertEqual(done.stdout, "[]\n", done.stderr)

    def test_progress_is_drawn(self):
        self.trace_code("pass")
        code = f"import dliotrace; list(dliotrace.open('trace', progress=True).sql({SLOW.replace('3000000', '60000')!r}))"
        done = self.start(sys.executable, "-c", code)
        self.assertEqual(done.returncode, 0, done.stderr)
        # The test reads \r as \n.
        self.assertRegex(done.stderr, r"^(\ndlio-analyze: \d+ % of the trace, [\d,]+ events *)+\n +\n$")
        self.assertEqual(self.start(sys.executable, "-c", code.replace(", progress=True", "")).stderr, "")
