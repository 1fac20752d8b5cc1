#!/usr/bin/env python3
"""Compares the waits of a GPU that dlio records with the truth: `compare.py [--check]`, run by ``make test-gpu``.

Each case of ``training.py`` runs twice. The first run synchronizes around the work of each step, so it knows how long the device works.
The second run does not, and is traced. In that one the device waits for the rest of the time: the time from the first batch to the end,
without the work that the first run measured. dlio's `gpu.data_wait` must agree with this, and `gpu.step` with the work, to 3 % of the
run. One case also runs with torch.profiler, which must still see its kernels, and whose kernels must take the time of `gpu.step`.

``--check`` only reports whether there is a GPU: exit status 0 if there is one.

DLIO_BIN_DIR is where the programs are (``target/dist/bin``), DLIO_TORCH_VENV an environment with PyTorch, DLIO_WHEEL the wheel with the
package `dliotrace` (``target/dist/wheel/*.whl``).
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
DIST = Path(os.environ.get("DLIO_DIST") or HERE.parent.parent / "target/dist")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PYTHON = Path(os.environ.get("DLIO_TORCH_VENV") or CACHE / "dlio-torch-venv") / "bin/python"
ANALYZE = Path(os.environ.get("DLIO_BIN_DIR") or DIST / "bin") / "dlio-analyze"

# Device files of NVIDIA's and AMD's drivers.
DRIVERS = ("/dev/nvidiactl", "/dev/kfd")

# Part of the run by which dlio and the truth may differ.
TOLERANCE = 0.03

# Cases in which the host waits for the device in each step, by calls that are recorded.
SYNCHRONIZED = ("item", "pageable")

# The case that also runs with torch.profiler, and the smallest number of kernels that it must see.
PROFILED = "hidden"


def fail(reason):
    print(f"cannot compare with the GPU: {reason}", file=sys.stderr)
    sys.exit(2)


def run(command, environment):
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        fail(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def plain(*arguments):
    """Runs a training without a tracer."""
    return json.loads(run([PYTHON, HERE / "training.py", *arguments], os.environ).splitlines()[-1])


class Traced:
    """A traced training, and what its trace contains."""

    def __init__(self, package, folder, *arguments):
        environment = os.environ | {"PYTHONPATH": str(package)}
        command = [PYTHON, "-m", "dliotrace", "run", "-q", "--torch", "-o", folder, HERE / "training.py", *arguments]
        self.folder = folder
        self.printed = json.loads(run(command, environment).splitlines()[-1])
        # The first batch is fetched before the time of the run begins.
        self.waited_ns = self.number("sum(dur)", "name = 'gpu.data_wait' and step > 0")
        self.worked_ns = self.number("sum(dur)", "name = 'gpu.step'")
        self.waits = self.number("count(*)", "name = 'gpu.data_wait'")
        self.unresolved = self.number("sum(cast(args['count'] as bigint))", "name = 'gpu.unresolved'")
        self.synchronized = self.number("count(*)", "layer = 'device'")

    def number(self, value, condition):
        sql = f"select coalesce({value}, 0) as n from events where {condition}"
        (row,) = json.loads(run([ANALYZE, self.folder, "--sql", sql, "--format", "json"], os.environ))
        return int(row["n"])


def is_near(measured, truth, whole):
    return abs(measured - truth) <= TOLERANCE * whole


def check_case(case, package, folder):
    """Runs a case, prints one line, and returns whether dlio agrees with the truth."""
    synced = plain(case, "--sync")
    traced = Traced(package, folder / case, case, "--repeats", synced["repeats"])
    wall, steps = traced.printed["wall_ns"], synced["steps"]
    truth = max(0.0, wall - synced["computing_ns"])
    problems = []
    if not is_near(traced.waited_ns, truth, wall):
        problems.append("gpu.data_wait differs")
    if not is_near(traced.worked_ns, synced["computing_ns"], wall):
        problems.append("gpu.step differs")
    # One wait more finds the end of the data. The last ones may not have completed when the process ends.
    if not steps <= traced.waits + traced.unresolved <= steps + 1 or traced.unresolved > 2:
        problems.append(f"{traced.waits} waits and {traced.unresolved} unresolved ones of {steps} steps")
    if case in SYNCHRONIZED and traced.synchronized < steps:
        problems.append(f"{traced.synchronized} calls that wait for the device in {steps} steps")
    print(
        f"{case:<10} run {wall / 1e6:7.0f} ms, device waited {traced.waited_ns / 1e6:7.1f} ms, truth {truth / 1e6:7.1f} ms, "
        f"worked {traced.worked_ns / 1e6:7.1f} ms, truth {synced['computing_ns'] / 1e6:7.1f} ms: {'; '.join(problems) or 'ok'}"
    )
    return not problems


def check_profiler(package, folder):
    """Checks that torch.profiler sees its kernels beside dlio, and that they take the time of the steps."""
    synced = plain(PROFILED, "--sync")
    profile = folder / "profile.json"
    traced = Traced(package, folder / "profiled", PROFILED, "--repeats", synced["repeats"], "--profile", profile)
    events = json.loads(profile.read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    ns = sum(event["dur"] for event in kernels) * 1000
    is_right = len(kernels) >= synced["steps"] and is_near(traced.worked_ns, ns, traced.printed["wall_ns"])
    print(
        f"profiler   {len(kernels)} kernels take {ns / 1e6:.1f} ms, gpu.step {traced.worked_ns / 1e6:.1f} ms: "
        f"{'ok' if is_right else 'they differ'}"
    )
    return is_right


def unpacked(folder):
    """Returns a directory with the package of the wheel."""
    wheel = os.environ.get("DLIO_WHEEL") or next(iter(glob.glob(str(DIST / "wheel/*.whl"))), None)
    if wheel is None:
        fail(f"no wheel in {DIST / 'wheel'}; run `make wheel`, or set DLIO_WHEEL")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for program in (folder / "dliotrace/bin").glob("*"):
        program.chmod(0o755)
    return folder


def main():
    if not any(map(os.path.exists, DRIVERS)):
        print(f"skipped: this host has no GPU ({' and '.join(DRIVERS)} do not exist)")
        return 1 if "--check" in sys.argv[1:] else 0
    if "--check" in sys.argv[1:]:
        return 0
    if not PYTHON.exists():
        fail(f"{PYTHON} does not exist; run `make setup-torch`, or set DLIO_TORCH_VENV")
    if "True" not in run([PYTHON, "-c", "import torch; print(torch.cuda.is_available())"], os.environ):
        fail(f"the PyTorch of {PYTHON} cannot use it; set DLIO_TORCH_VENV to an environment with a build for this driver")
    with tempfile.TemporaryDirectory(prefix="dlio-gpu-") as scratch:
        folder = Path(scratch)
        package = unpacked(folder / "package")
        results = [check_case(case, package, folder) for case in ("hidden", "starved", "item", "graph", "pageable")]
        results.append(check_profiler(package, folder))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
