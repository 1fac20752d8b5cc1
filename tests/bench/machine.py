"""The environment of a measurement: processors, load, disk space, versions."""

import datetime
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

# Runnable processes per core, in addition to the one that measures, above which results are upper bounds: with as
# many as there are cores, every second measured process waits.
BUSY_PER_CORE = 0.25


def facts():
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
    }


def processor():
    found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def load():
    """Returns the number of runnable processes, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


class Others:
    """Returns the CPU time of other processes during a measurement."""

    def __init__(self):
        self.began = self._busy(), self._own()

    @staticmethod
    def _busy():
        """Returns the busy seconds of all processors: the counters from user to steal, without idle and iowait."""
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def _own():
        taken = os.times()
        return taken.user + taken.system + taken.children_user + taken.children_system

    def cores_taken(self, seconds):
        busy, own = self.began
        return max(0.0, (self._busy() - busy - (self._own() - own)) / max(seconds, 1e-9))


def is_busy(cores_taken_by_others):
    return cores_taken_by_others > BUSY_PER_CORE * len(os.sched_getaffinity(0))


def free_bytes(folder):
    return shutil.disk_usage(folder).free


def version(command, environment=None):
    """Returns the first line that looks like a version, or nothing if the command does not run."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+(\.\d+)+\S*", said.stdout + said.stderr) if said.returncode == 0 else None
    return found[0] if found else None
