#!/usr/bin/env python3
"""Counts the instructions of a traced call, of a short process and of a decoded event, and fails if one costs 10 % more
than before (25 % for an event that is summarized).

    guard.py              compares with baseline.toml
    guard.py --renew      rewrites baseline.toml, to be committed with the change that needs it and its reason

Instructions do not depend on the load of the host, unlike time. A program runs with N calls and with 2 N calls under valgrind's
callgrind. The difference divided by N is the cost of one call, without the start and the end. The kernel's instructions do not count.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import places

BASELINE = places.HERE / "baseline.toml"
GROWTH_MAX = 0.10
# This includes differences between hosts: the durations of the trace's calls determine how many bytes their times
# take, and the analyzer chooses its functions by the processor and the sizes of its tables by the amount of memory.
# The same build has counted 10 % more on another host of the same kind.
GROWTH_OF_THE_ANALYZER = 0.25

# Number of repetitions for a count that seems to have grown: even on an idle host, one build has counted 317 to 375
# instructions for a pread, because the times of calls determine how well they compress. A real growth is above the
# limit each time.
COUNTS_AGAIN = 4

# Whole halves of a ring, so that N and 2 N calls make N / 2048 and twice as many blocks.
CALLS = 40_960
EVENTS = 409_600

TRACED = {
    "pread": "pread", "stat": "stat", "open and close": "openclose", "fread": "fread",
    "open, read, close of another file": "distinct", "the same by a relative path": "distinct_here",
    "the same by a folder's descriptor": "distinct_at",
}  # fmt: skip


# All of their events are filtered out.
FILTERED = {"pread": "pread", "stat": "stat", "open and close": "openclose"}

SUMMARISED = "event of a .dlt, summarized"
# Short-lived processes, which builds and shells start by the thousands; compared with the untraced process.
SHORT = {"a process that does nothing": ["/bin/true"], "a process of a few calls": ["/bin/cat", str(places.HERE / "guard.py")]}

SMALL_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C"}


class Guard:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.values = places.programs()
        places.require(self.values)
        self.loop = self.folder / "loop"
        subprocess.run(["cc", "-O2", "-pthread", "-o", self.loop, places.HERE / "programs/loop.c"], check=True)
        (self.folder / "blocks").write_bytes(bytes(4 << 20))
        # Creates the files that are opened one by one.
        subprocess.run(self.loop_command("distinct", 2 * CALLS), check=True, capture_output=True)

    def count_all(self):
        """Returns the instructions of each guarded operation, by its name."""
        tasks = self.tasks()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            running = {name: pool.submit(task, mode) for name, (task, mode) in tasks.items()}
            return {name: count.result() for name, count in running.items()}

    def count_again(self, name):
        """Counts one operation while nothing else runs. If two programs share the processors, times between calls take more
    bytes, and a call takes more instructions."""
        task, mode = self.tasks()[name]
        return task(mode)

    def tasks(self):
        tasks = {name: (self.traced, mode) for name, mode in TRACED.items()}
        tasks |= {f"{name}, filtered": (self.filtered, mode) for name, mode in FILTERED.items()}
        tasks |= {"fread, only counted": (self.counted, "fread")}
        tasks |= {"another file, made a .pftrace": (self.exported, "distinct")}
        tasks |= {"pread, only counted": (self.counted, "pread"), "pread, made a .pftrace": (self.exported, "pread")}
        tasks |= {"open and close, made a .pftrace": (self.exported, "openclose")}
        tasks |= {SUMMARISED: (self.decoded, "")}
        return tasks | {name: (self.short, command) for name, command in SHORT.items()}

    def traced(self, mode, form="native"):
        return self.slope(CALLS, lambda calls: self.loop_instructions(mode, calls, form))

    def counted(self, mode):
        return self.slope(CALLS, lambda calls: self.loop_instructions(mode, calls, "native", DLIO_TRACE_MODE="summary"))

    def filtered(self, mode):
        return self.slope(CALLS, lambda calls: self.loop_instructions(mode, calls, "native", DLIO_TRACE_INCLUDE="/no/such/**"))

    def exported(self, mode):
        """Counts the conversion of an event to .pftrace at the end, without recording it."""
        return self.traced(mode, "perfetto") - self.traced(mode)

    def short(self, command):
        """Counts the overhead of a whole process, including its start and end; its trace is converted by another program.

        The first process of a run queries the host, and passes the answers to the others. How many instructions this takes
        depends on the control groups of the host, so the process gets the answers, as all processes of a run but the first do.
        Searching the environment depends on its size, so the environment is small and always has the same variables."""
        trace = self.folder / f"short-{len(command)}"
        traced = self.traced_environment(trace, "auto", SMALL_ENVIRONMENT) | {"DLIO_TRACE_CONVERT": "later"}
        # A shell that has recorded a call knows the answers, and passes them to `env`, which prints them.
        shell = ["sh", "-c", f"read line < '{places.HERE / 'guard.py'}'; exec env"]
        answers = subprocess.run(shell, env=traced, check=True, capture_output=True, text=True).stdout
        machine = re.search("^DLIO_TRACE_MACHINE=(.*)$", answers, re.MULTILINE)
        if not machine:
            sys.exit("guard: a traced shell passed no DLIO_TRACE_MACHINE to its program")
        return callgrind(command, traced | {"DLIO_TRACE_MACHINE": machine[1]}) - callgrind(command, SMALL_ENVIRONMENT)

    def decoded(self, _):
        return self.slope(EVENTS, self.summary_instructions)

    @staticmethod
    def slope(count, instructions):
        return (instructions(2 * count) - instructions(count)) / count

    def loop_instructions(self, mode, calls, form, **more):
        trace = self.folder / "-".join([mode, str(calls), form, *more])
        return callgrind(self.loop_command(mode, calls), self.traced_environment(trace, form) | more)

    def summary_instructions(self, events):
        trace = self.folder / f"summary-{events}"
        subprocess.run(
            self.loop_command("pread", events), env=self.traced_environment(trace, "native"),
            check=True, capture_output=True,
        )  # fmt: skip
        return callgrind([self.values["analyze"], trace, "--summary", "--threads", "1", "--no-cache"], os.environ)

    def loop_command(self, mode, calls):
        return [self.loop, mode, "1", str(calls), "4096", self.folder / "blocks"]

    def traced_environment(self, trace, form, environment=os.environ):
        tracing = {"LD_PRELOAD": self.values["library"], "DLIO_TRACE_DIR": trace, "DLIO_TRACE_FORMAT": form}
        return environment | {name: str(value) for name, value in tracing.items()}


def callgrind(command, environment):
    said = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *map(str, command)],
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", said.stderr)
    if said.returncode != 0 or not found:
        sys.exit(f"{' '.join(map(str, command))}: callgrind counted nothing: {said.stderr.strip()[-300:]}")
    return int(found[1])


def has_grown(name, count, baseline):
    return count > baseline[name] * (1 + (GROWTH_OF_THE_ANALYZER if name == SUMMARISED else GROWTH_MAX))


def grown(counted, baseline):
    """Returns a message for each count that is too large or has no baseline."""
    sentences = []
    for name, count in counted.items():
        if name not in baseline:
            sentences.append(f"{name}: {count:.1f} instructions, and baseline.toml does not know it")
        elif has_grown(name, count, baseline):
            known = baseline[name]
            sentences.append(f"{name}: {count:.1f} instructions, {count / known - 1:.0%} more than the {known} of baseline.toml")
    return sentences


def renewed(counted):
    lines = "".join(f'"{name}" = {count:.1f}\n' for name, count in counted.items())
    return (
        "# Instructions in user space for one traced call, for a short process in addition to the untraced process, and for one event\n"
        "# of a summarized trace. The guard fails if a number grows by 10 %.\n"
        "# `tests/bench/guard.py --renew` rewrites this file: commit it with the change that needs it.\n\n"
        f"[instructions]\n{lines}"
    )


def main():
    baseline = tomllib.loads(BASELINE.read_text())["instructions"]
    with tempfile.TemporaryDirectory(prefix="dlio-guard.") as folder:
        guard = Guard(folder)
        counted = guard.count_all()
        if sys.argv[1:] == ["--renew"]:
            BASELINE.write_text(renewed(counted))
            return
        for name, count in counted.items():
            if name in baseline and has_grown(name, count, baseline):
                again = (guard.count_again(name) for _ in range(COUNTS_AGAIN))
                counted[name] = next((count for count in again if not has_grown(name, count, baseline)), count)
    for name, count in counted.items():
        print(f"{name:<30} {count:8.1f} instructions, baseline {baseline.get(name, '-')}")
    if sentences := grown(counted, baseline):
        remedy = "if that is meant: tests/bench/guard.py --renew, and say why in the commit"
        sys.exit("\n".join(["a call costs more than it did:", *sentences, remedy]))


if __name__ == "__main__":
    try:
        main()
    except places.Missing as error:
        sys.exit(f"guard: {error}")
