"""Tests the report of training jobs with known causes of waiting, with spans and without."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import unittest

from traces import HERE, TracedTest, analyzer, clean_environment

JOB = os.path.join(HERE, "..", "..", "tests", "jobs", "train.py")
TORCH = importlib.util.find_spec("torch") is not None


def readers_of(start):
    """Returns the names of the readers: a fork server starts one process before them."""
    return ["worker 1", "worker 2"] if start == "forkserver" else ["worker 0", "worker 1"]


class Jobs(TracedTest):
    def run_job(self, kind, *options):
        """Returns the times of the trainer's own clock, the report, and its first screen with three rows per table."""
        trace, printed = self.run_traced(JOB, kind, self.path("data"), *options)
        screen, report = (
            subprocess.run(
                [analyzer(), trace.folder, "--format", form, "--top", "3"], capture_output=True, text=True, check=True,
                env=clean_environment(),
            ).stdout
            for form in ("text", "json")
        )
        shutil.rmtree(trace.folder)
        return json.loads(printed.splitlines()[-1]), json.loads(report), screen

    def check_figures(self, training, seen, spans):
        """Compares with the trainer's clock. Inference misses the start and the end of the training."""
        slack = 0.05 * seen["trained_s"] + (0.02 if spans else 0.3)
        self.assertEqual((training["trainer"], training["inferred"]), ("train.py", not spans))
        self.assertAlmostEqual(training["trained_ns"] / 1e9, seen["trained_s"], delta=slack)
        self.assertAlmostEqual(training["waited_ns"] / 1e9, seen["waited_s"], delta=slack)
        parts = ("wait_start_ns", "wait_io_ns", "wait_elsewhere_ns")
        self.assertEqual(sum(training[part] for part in parts), training["waited_ns"])
        self.assertTrue(all(training[part] >= 0 for part in parts), training)

    def check_names(self, report, screen, readers):
        (training,) = report["training"]
        self.assertEqual([reader["name"] for reader in training["readers"]], readers)
        roles = {process["name"]: process["role"] for process in report["processes"] if process["role"]}
        self.assertEqual(roles, {"train.py": "trainer", **dict.fromkeys(readers, "reader")})
        by_proc = {process["proc"]: process["name"] for process in report["processes"]}
        self.assertEqual([by_proc[reader["proc"]] for reader in training["readers"]], readers)
        rows = screen.split("\nProcesses\n")[1].splitlines()[1:4]
        named = [re.match(r"  (.+?) \(\d+\) +(\w+) ", row).groups() for row in rows]
        self.assertEqual(named, [("train.py", "trainer"), *((reader, "reader") for reader in readers)])

    def check_share(self, training, in_io):
        """Checks the share of I/O in the readers' work after their start."""
        busy = training["wait_io_ns"] + training["wait_elsewhere_ns"]
        part = training["wait_io_ns"] / busy
        self.assertTrue(in_io[0] <= part <= in_io[1], (part, training))

    def check(self, kind, spans, answer, in_io, *options):
        seen, report, screen = self.run_job(kind, *options, *(["--spans"] if spans else []))
        (training,) = report["training"]
        self.check_figures(training, seen, spans)
        # On a busy host, even the third job sometimes waits.
        some = kind == "nothing" and seen["waited_s"] > 0.035 * seen["trained_s"]
        answers = (answer, "Training waited for data some of the time", "Training waited for its readers") if some else answer
        self.assertTrue(report["verdict"][0].startswith(answers), report["verdict"])
        # A sum that is one number in the report is also a time series.
        columns, waited = sum(report["timeline"]["waited_ns"]) / 1e9, training["waited_ns"] / 1e9
        self.assertAlmostEqual(columns, waited, delta=1e-6 if spans else 0.05 * training["trained_ns"] / 1e9 + 0.02)
        self.check_names(report, screen, readers_of("forkserver" if kind == "storage" else "fork"))
        if in_io is not None:
            self.check_share(training, in_io)
        return report["verdict"]


class Verdicts(Jobs):
    def test_a_job_that_waits_for_decoding_is_told_so(self):
        for spans in (True, False):
            with self.subTest(spans=spans):
                verdict = self.check("decode", spans, "Training waited for data", (0, 0.3))
                self.assertRegex(verdict[1], "^Causes of the whole wait: .* (no free CPU|CPU time spent on batches)")

    def test_a_job_that_waits_for_storage_is_told_so(self):
        for spans in (True, False):
            with self.subTest(spans=spans):
                verdict = self.check("storage", spans, "Training waited for data", (0.7, 1))
                self.assertRegex(verdict[1], "^Causes of the whole wait: [0-9]+ % storage")

    def test_workers_that_nobody_asks_for_a_batch_are_readers_too(self):
        self.check("decode", False, "Training waited for data", (0, 0.3), "--shares")
        self.check("storage", False, "Training waited for data", (0.7, 1), "--shares")

    def test_a_job_that_waits_for_nothing_is_told_so(self):
        for spans in (True, False):
            with self.subTest(spans=spans):
                self.check("nothing", spans, "Training hardly waited for " + ("data" if spans else "its readers"), None)


@unittest.skipUnless(TORCH, "`make test-torch` installs PyTorch")
class TorchVerdicts(Jobs):
    """Tests the jobs with PyTorch's loader. Spawned workers import PyTorch again, which is not waiting for data."""

    def check_torch(self, kind, start, spans, in_io):
        seen, report, screen = self.run_job(kind, "--torch", "--start", start, *(["--spans"] if spans else []))
        (training,) = report["training"]
        self.check_figures(training, seen, spans)
        self.check_names(report, screen, readers_of(start))
        # The truth without the wait for the first batch, during which workers start.
        truth = (seen["waited_s"] - seen["first_s"]) / (seen["trained_s"] - seen["first_s"])
        waited = training["waited_ns"] - training["wait_start_ns"]
        part = waited / (training["trained_ns"] - training["wait_start_ns"])
        self.assertAlmostEqual(part, truth, delta=0.2, msg=f"{seen} {training}")
        answer = report["verdict"][0]
        if kind != "nothing":
            self.assertTrue(answer.startswith("Training waited for data"), answer)
        elif truth < 0.035:
            others = ("Training hardly waited", "Training waited for data some", "Training waited for its readers")
            self.assertTrue(answer.startswith(others), answer)
        if in_io is not None:
            self.check_share(training, in_io)
        return report["verdict"][1]

    def test_decoding(self):
        for start, spans in (("fork", False), ("spawn", False), ("fork", True)):
            with self.subTest(start=start, spans=spans):
                self.assertIn("CPU", self.check_torch("decode", start, spans, (0, 0.3)))

    def test_slow_storage(self):
        for start, spans in (("forkserver", False), ("spawn", False), ("forkserver", True)):
            with self.subTest(start=start, spans=spans):
                self.assertIn("storage", self.check_torch("storage", start, spans, (0.6, 1)))

    def test_neither(self):
        for start, spans in (("fork", False), ("spawn", False), ("fork", True)):
            with self.subTest(start=start, spans=spans):
                self.check_torch("nothing", start, spans, None)
