"""Reads a file under torch.profiler: the size of each read is the number of its step plus 1000. Writes the profile, and the Unix times
around the start of each step and of its read.

    profiled.py FILE PROFILE.json.gz TIMES.json
"""

import json
import os
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

STEPS = 40

fd = os.open(sys.argv[1], os.O_RDONLY)
times = []
with profile(activities=[ProfilerActivity.CPU]) as recorded:
    for step in range(STEPS):
        before = time.time_ns()
        with record_function(f"step {step}"):
            inside = time.time_ns()
            os.pread(fd, 1000 + step, 0)
            after = time.time_ns()
            torch.randn(100, 100).sum().item()
        times.append([before, inside, after])
        time.sleep(0.01)
recorded.export_chrome_trace(sys.argv[2])
with open(sys.argv[3], "w") as file:
    json.dump(times, file)
