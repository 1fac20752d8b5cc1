"""Tests the example slow_disk.py, and that its result agrees with the trainer's own clock."""

import json
import os
import re
import subprocess
import sys

from traces import EXAMPLES, TracedTest, analyzer, clean_environment


class SlowDisk(TracedTest):
    def compared(self):
        command = [analyzer(), "before", "--compare", "after", "--format", "json"]
        told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=self.path(""), env=clean_environment())
        return json.loads(told.stdout)

    def test_more_workers_help_as_much_as_is_said(self):
        done = self.start(sys.executable, os.path.join(EXAMPLES, "slow_disk.py"), self.path(""))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = " ".join(done.stdout.split())
        self.assertIn("Training waited for data", told)
        self.assertIn("Storage was the bottleneck", told)
        self.assertIn("steps are faster", told)
        clocks = [float(seconds) for seconds in re.findall(r"trained ([0-9.]+) s, waited", told)]
        waits = [float(seconds) for seconds in re.findall(r"trained [0-9.]+ s, waited ([0-9.]+) s", told)]
        figures = {metric["metric"]: metric for metric in self.compared()["metrics"]}
        # The trainer's clock starts before it imports the package, which takes time while workers start.
        for figure, (before, after), part in (("trained_s", clocks, 0.2), ("wait.s", waits, 0.05)):
            self.assertAlmostEqual(figures[figure]["before"], before, delta=part * clocks[0])
            self.assertAlmostEqual(figures[figure]["after"], after, delta=part * clocks[0])
        self.assertEqual(figures["step.mean_s"]["claim"], "fewer")
        self.assertEqual(figures["steps"]["claim"], "same")
