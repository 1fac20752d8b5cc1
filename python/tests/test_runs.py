"""Runs whole programs with and without `python3 -m dliotrace run`, and compares them."""

import os
import subprocess
import sys
import unittest

from traces import EXAMPLES, Trace, TracedTest, clean_environment

OPEN = "select count(distinct pid) as n from events where name = 'item'"


class Examples(TracedTest):
    def test_the_example_of_spans_shows_spans_and_reads_together(self):
        self.write("input", "x" * 300_000)
        trace, printed = self.run_traced(os.path.join(EXAMPLES, "spans.py"), self.path("input"))
        self.assertEqual(printed, "caught: on purpose\n")
        self.assertEqual(trace.count("name = 'read_sample' and cat = 'data'"), 8)
        self.assertEqual(trace.count("name = 'step' and cat = 'compute' and epoch = 1 and step = 3"), 1)
        self.assertEqual(trace.count("name = 'forward' and depth = 2"), 8)
        self.assertEqual(trace.count("name like 'pread%' and depth = 4 and file like '%/input'"), 8)
        self.assertEqual(trace.count("name = 'epoch done'"), 2)
        self.assertEqual(trace.arguments("name = 'fail'"), [{"exception": "ValueError"}])

    def check_loader(self, method):
        trace, printed = self.run_traced(os.path.join(EXAMPLES, "loader.py"), self.path("data"), method)
        self.assertEqual(printed, f"{2 * 32 * (128 << 10)} bytes in 2 epochs\n")
        self.assertEqual(trace.count("name like '%item' and cat = 'data'"), 64)
        # The distribution of tasks to workers is random; the parent runs none.
        workers = int(trace.value("select count(distinct pid) as n from events where name = 'batch'"))
        self.assertIn(workers, range(1, 5))
        self.assertEqual(trace.count("name = 'read' and depth = 2 and file like '%.bin' and bytes > 0"), 64)
        self.assertEqual(trace.count("name = 'fetch'"), 16)
        self.assertEqual(trace.count("name = 'fetch.end'"), 2)
        self.assertEqual(trace.count("name = 'compute' and depth = 1"), 16)
        parent = trace.value("select count(distinct pid) as n from events where name = 'epoch'")
        self.assertEqual(parent, "1")

    def test_forked_workers_are_traced_by_themselves(self):
        self.check_loader("fork")

    def test_spawned_workers_are_traced_by_themselves(self):
        self.check_loader("spawn")

    def test_workers_of_a_fork_server_are_traced_by_themselves(self):
        self.check_loader("forkserver")


class Running(TracedTest):
    def test_exit_statuses_and_streams_are_the_programs_own(self):
        program = self.write("program.py", "import sys; print(sys.argv[1:]); sys.exit(7)")
        _, printed = self.run_traced(program, "-o", "--x", status=7)
        self.assertEqual(printed, "['-o', '--x']\n")

    def test_modules_and_code_run_as_well(self):
        self.write("part.py", "import sys; print(__name__, sys.argv[1:])")
        self.assertEqual(self.run_traced("-m", "part", "a")[1], "__main__ ['a']\n")
        self.assertEqual(self.run_traced("-c", "import sys; print(sys.argv)", "b")[1], "['-c', 'b']\n")

    def test_the_library_goes_in_front_of_what_is_preloaded_already(self):
        library = "/nowhere/libother.so"
        code = "import os; print(os.environ['LD_PRELOAD'])"
        done = self.start(sys.executable, "-m", "dliotrace", "run", "-o", "t", "-c", code, LD_PRELOAD=library)
        first, second = done.stdout.strip().split(":")
        self.assertEqual((os.path.basename(first), second), ("libdliotrace.so", library))

    def test_a_run_says_where_its_trace_is_and_what_to_do_next(self):
        done = self.start(sys.executable, "-m", "dliotrace", "run", "-c", "pass")
        self.assertIn(f"dlio-analyze {os.path.realpath(self.folder)}/dlio-trace", done.stderr)

    def test_a_run_without_a_program_says_so(self):
        done = self.start(sys.executable, "-m", "dliotrace", "run")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no program to run", done.stderr)


class Without(TracedTest):
    CODE = """
from dliotrace import enabled, span, traced_iter
with span("alone", epoch=1) as alone:
    alone.set(x=1)
    list(traced_iter([1]))
    open(__file__).read()
print(enabled())
"""

    def test_spans_alone_are_recorded_without_the_preload(self):
        done = self.start(sys.executable, self.write("program.py", self.CODE), DLIO_TRACE_DIR=self.path("trace"))
        self.assertEqual(done.stdout, "True\n", done.stderr)
        trace = Trace(self.path("trace"))
        self.assertEqual(trace.count("name = 'alone' and epoch = 1"), 1)
        self.assertEqual(trace.count("cat = 'posix'"), 0)

    def test_without_any_tracer_nothing_happens(self):
        done = self.start(sys.executable, self.write("program.py", self.CODE))
        self.assertEqual((done.stdout, done.stderr), ("False\n", ""))
        self.assertEqual(os.listdir(self.folder), ["program.py"])

    def test_a_trace_that_is_switched_off_records_nothing(self):
        done = self.start(
            sys.executable, self.write("program.py", self.CODE), DLIO_TRACE_DIR=self.path("trace"), DLIO_TRACE="0"
        )
        self.assertEqual(done.stdout, "False\n")

    def test_an_engine_that_cannot_be_loaded_leaves_the_program_running(self):
        code = "import sys; sys.modules['dliotrace._engine'] = None\n" + self.CODE
        done = self.start(sys.executable, self.write("program.py", code))
        self.assertEqual(done.stdout, "False\n", done.stderr)
        self.assertIn("no spans are recorded", done.stderr)


class OneEngine(TracedTest):
    def test_preload_and_wheel_write_one_trace_a_process(self):
        code = """
from dliotrace import span
with span("one"):
    open(__file__).read()
"""
        trace, _ = self.trace_code(code)
        self.assertEqual(len(os.listdir(self.path("trace"))), 1)
        self.assertEqual(trace.count("name = 'one'"), 1)
        self.assertGreater(trace.count("cat = 'posix' and depth = 1"), 0)

    RUST = """
import ctypes, os, sys
from dliotrace import span
load = ctypes.CDLL(os.environ["DLIO_TEST_RUST_LIBRARY"]).load_sample
load.restype = ctypes.c_int64
def sample():
    assert load(sys.argv[1].encode()) == 1000
if "rust first" in sys.argv:
    sample()
with span("step", epoch=1, step=3):
    sample()
"""

    def check_rust(self, trace, first):
        self.assertEqual(len(os.listdir(trace.folder)), 1)
        self.assertEqual(trace.count("name = 'load sample' and depth = 1"), 1)
        self.assertEqual(trace.count("name = 'load sample' and depth = 0"), first)
        self.assertEqual(trace.count("name = 'step' and depth = 0 and epoch = 1 and step = 3"), 1)
        self.assertEqual(trace.count("args['bytes'] = '1000'"), 1 + first)

    def test_a_rust_library_with_an_engine_of_its_own_records_into_the_preloaded_one(self):
        program = self.write("program.py", self.RUST)
        trace, _ = self.run_traced(program, self.write("sample", "x" * 1000), "rust first")
        self.check_rust(trace, first=1)
        self.assertEqual(trace.count("name = 'read' and bytes = 1000 and depth = 2 and file like '%/sample'"), 1)

    def test_two_engines_without_a_preloaded_one_record_into_one_trace(self):
        program, sample = self.write("program.py", self.RUST), self.write("sample", "x" * 1000)
        for first, order in enumerate(["wheel first", "rust first"]):
            trace = Trace(self.path(order))
            done = self.start(sys.executable, program, sample, order, DLIO_TRACE_DIR=trace.folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.check_rust(trace, first)
            self.assertEqual(trace.count("cat = 'posix'"), 0)

    def test_a_c_library_of_the_same_process_records_into_it(self):
        source = self.write("part.c", """
#include "dliotrace.h"
void work(void) { dlio_span span = dlio_begin("in C", "compute"); dlio_end(&span); }
""")
        include = os.path.join(EXAMPLES, "..", "..", "tracer", "include")
        subprocess.run(["cc", "-shared", "-fPIC", "-I", include, "-o", self.path("part.so"), source], check=True)
        trace, _ = self.trace_code("""
import ctypes, os
from dliotrace import span
with span("in Python"):
    ctypes.CDLL(os.path.abspath("part.so")).work()
""")
        self.assertEqual(len(os.listdir(self.path("trace"))), 1)
        self.assertEqual(trace.count("name = 'in C' and depth = 1"), 1)


if __name__ == "__main__":
    unittest.main()
