"""Tests that PyTorch programs record the waits of a GPU, with the real PyTorch and a simulated driver."""

import importlib.util
import os
import subprocess
import unittest

from traces import HERE, TracedTest

TORCH = importlib.util.find_spec("torch") is not None
DRIVER = os.path.join(HERE, "..", "..", "tests", "device", "driver.c")


@unittest.skipUnless(TORCH, "`make test-torch` installs PyTorch")
class Device(TracedTest):
    def train(self, mode):
        """Runs a training, and returns its trace and the number of events that it recorded on the device."""
        driver = self.path("libcuda.so.1")
        command = ["cc", "-shared", "-fPIC", "-w", "-D_GNU_SOURCE", "-Wl,-soname,libcuda.so.1", "-o", driver, DRIVER]
        subprocess.run(command, check=True)
        trace, printed = self.run_traced(os.path.join(HERE, "programs", "torch_device.py"), driver, mode)
        return trace, int(printed)

    def check_training(self, mode):
        trace, recorded = self.train(mode)
        # Six batches, and the attempt that finds no further one.
        self.assertEqual(recorded, 14)
        rows = trace.rows("select name, cat, epoch, step, dur from events where cat like 'gpu%' order by ts")
        names = [row["name"] for row in rows]
        self.assertEqual(names, ["gpu.data_wait", "gpu.step"] * 6 + ["gpu.data_wait"])
        self.assertEqual([row["step"] for row in rows[::2]], [str(step) for step in range(7)])
        self.assertEqual({row["epoch"] for row in rows}, {"0"})
        # The device waits while the host does, apart from a delay of the host between its clock and the event.
        joined = trace.rows(
            "select g.ts - f.ts as early, f.ts + f.dur - g.ts - g.dur as late from events g join events f "
            "on g.step = f.step and g.epoch = f.epoch where g.name = 'gpu.data_wait' and f.name = 'fetch'"
        )
        self.assertEqual(len(joined), 6)
        for row in joined:
            self.assertGreater(int(row["early"]), -2_000_000, row)
            self.assertGreater(int(row["late"]), -2_000_000, row)
        return trace

    def test_each_batch_has_the_wait_and_the_step_of_the_device(self):
        self.check_training("workers")

    def test_loader_without_workers_starves_the_device(self):
        trace = self.check_training("alone")
        # Four samples take 16 ms, and the device computes for one.
        self.assertGreater(int(trace.value("select sum(dur) from events where name = 'gpu.data_wait'")), 80_000_000)

    def test_program_on_the_cpu_has_none(self):
        trace, recorded = self.train("cpu")
        self.assertEqual((recorded, trace.count("cat like 'gpu%'")), (0, 0))

    def test_thread_that_fetches_ahead_does_not_touch_the_device(self):
        trace, recorded = self.train("ahead")
        self.assertEqual((recorded, trace.count("cat like 'gpu%'")), (0, 0))
        self.assertEqual(trace.count("name = 'fetch'"), 6)


if __name__ == "__main__":
    unittest.main()
