"""Runs one command and returns its cost or its error: never both, never an exception.

`launch` (programs/launch.c) starts the command in a new session, so that a time limit also ends its child processes.
"""

import os
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass, field


@dataclass
class Run:
    """One run: seconds, KiB and output, or the error."""

    wall: float = 0.0
    cpu: float = 0.0
    memory: float = 0.0
    status: int = 0
    said: str = ""
    trouble: str = ""
    figures: dict = field(default_factory=dict)


class Runner:
    """Runs commands; tests replace it."""

    def __init__(self, launch):
        self.launch = launch

    def run(self, command, environment, folder, limit, expected_status=0):
        report, output = f"{folder}/report", f"{folder}/output"
        variables = [f"{name}={value}" for name, value in environment.items()]
        began = time.monotonic()
        with open(output, "wb") as sink:
            process = subprocess.Popen(
                [self.launch, report, *variables, "--", *command],
                cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
                preexec_fn=no_core_files,
            )  # fmt: skip
            hung = not wait(process, limit)
        said = last_part(output)
        if hung:
            return Run(said=said, trouble=f"hung: ended after {time.monotonic() - began:.0f} s")
        return judged(report, said, expected_status)


def wait(process, limit):
    """Returns True if it ended in time. The rest of its session is killed in any case: a peer may leave servers behind."""
    try:
        process.wait(limit)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def judged(report, said, expected_status):
    try:
        with open(report) as file:
            status, wall, cpu, memory = map(float, file.read().split())
    except (OSError, ValueError):
        return Run(said=said, trouble="it could not be started")
    run = Run(wall, cpu, memory, int(status), said)
    if run.status != expected_status:
        run.trouble = f"{ending(run.status)}: {complaint(said)}"
    return run


def ending(status):
    if status < 0:
        return f"crashed with {signal.Signals(-status).name}"
    return f"failed with status {status}"


def complaint(text):
    """Returns the last line that mentions an error, otherwise the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\S*(error|exception)\b", line, re.I)]
    return (errors or lines or ["it said nothing"])[-1][:160]


def last_part(path, most=1 << 20):
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - most))
        return file.read().decode(errors="replace")


def no_core_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
