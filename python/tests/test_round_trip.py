"""Tests the example from a program to a benchmark and back."""

import os
import re
import sys

from traces import EXAMPLES, TracedTest


class RoundTrip(TracedTest):
    def test_the_workload_of_a_program_is_run_and_swept(self):
        done = self.start(sys.executable, os.path.join(EXAMPLES, "round_trip.py"), self.path(""))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for key in ("num_files_train: 96", "batch_size: 4", "read_threads: 2", "epochs: 3"):
            self.assertIn(key, done.stdout)
        cosine = float(re.search(r"The cosine of \d+ features is ([0-9.]*[0-9])", " ".join(done.stdout.split())).group(1))
        self.assertGreater(cosine, 0.9)
        page = re.search(r"; page: (\S+)", done.stdout).group(1)
        with open(self.path(page), encoding="utf-8") as file:
            drawn = file.read()
        # Three settings, two metrics.
        self.assertEqual(drawn.count("<circle"), 6)
        self.assertIn("reader.read_threads", drawn)
