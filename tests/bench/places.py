"""Locations of everything that a case names (programs, peers, the measured directory), and the prepared data."""

import glob
import os
import shutil
import subprocess
from pathlib import Path

import machine
from cases import filled

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Disk space for the harness itself and later cases, in addition to the data being created.
DISK_RESERVE = 1 << 30
# A trace with fewer events is not representative of large ones.
EVENTS_LEAST = 100_000


class Missing(Exception):
    """A requirement of the run is missing; the text names the command that installs it."""


def cache():
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def target():
    return Path(os.environ.get("CARGO_TARGET_DIR") or cache() / "dlio-target")


def programs():
    """Returns programs by their names in the list; a missing one is reported when a case needs it."""
    dist = Path(os.environ.get("DLIO_DIST") or HERE.parents[1] / "target/dist")
    release = target() / "release"
    return {
        "dlio": dist / "bin/dlio",
        "analyze": dist / "bin/dlio-analyze",
        "library": dist / "lib/libdliotrace.so",
        "generate": release / "examples/generate_trace",
        "spans_rust": release / "span-cost",
        "python": os.environ.get("DLIO_TEST_PYTHON") or cache() / "dlio-venv/bin/python",
        "wheel": dist / "wheel",
    }


def require(values):
    for name in ("dlio", "analyze", "library"):
        if not Path(values[name]).exists():
            raise Missing(f"cannot find {values[name]}; run `make build`")


class Places:
    """The values of names in templates, and the data prepared so far."""

    def __init__(self, plan, work):
        self.plan = plan
        self.work = Path(work)
        self.values = {"here": HERE, "root": ROOT, "work": work, "cache": cache(), **programs()}
        self.values |= {program: self.compile(program) for program in ("launch", "loop", "spans")}
        self.peers = {name: path for name, peer in plan.peers.items() if (path := found(peer, self.values))}
        self.values |= self.peers
        self.prepared = {}

    def compile(self, program):
        binary = self.work / program
        source = HERE / f"programs/{program}.c"
        include = ROOT / "tracer/include"
        subprocess.run(
            ["cc", "-O2", "-pthread", "-I", include, "-o", binary, source, "-ldl"], check=True
        )  # fmt: skip
        return binary

    def fill(self, texts, **more):
        return [filled(text, self.values | more) for text in texts]

    def fill_environment(self, environment, **more):
        return {name: filled(text, self.values | more) for name, text in environment.items()}

    def missing_peers(self):
        return {name: peer for name, peer in self.plan.peers.items() if name not in self.peers}

    def why_not(self, peer):
        return f"{self.plan.peers[peer].what} is not installed" if peer and peer not in self.peers else ""

    def versions(self):
        rows = {name: self.plan.peers[name] for name in self.peers}
        return {peer.what: machine.version(self.fill(peer.version)) or "?" for peer in rows.values() if peer.version}

    def prepare(self, name, runner):
        """Prepares data unless they exist; returns the number of events and the error, if any."""
        if name not in self.prepared:
            self.prepared[name] = self._make(self.plan.preparations[name], runner)
        return self.prepared[name]

    def _make(self, step, runner):
        for before in step.after:
            events, trouble = self.prepare(before, runner)
            if trouble:
                return events, trouble
        if reason := self.why_not(step.peer):
            return step.events, reason
        inherited = min((self.prepared[before][0] for before in step.after if self.prepared[before][0]), default=step.events)
        events = events_with_room(min(inherited, step.events), step.bytes_an_event, machine.free_bytes(self.work))
        if machine.free_bytes(self.work) < step.bytes + DISK_RESERVE or (step.events and not events):
            return 0, f"the disk is too small: {machine.free_bytes(self.work) / 1e9:.1f} GB are free in {self.work}"
        if events < step.events:
            print(f"{step.name}: {events:,} events instead of {step.events:,}, because the disk is too small for more")
        return events, self._run(step, events, runner)

    def _run(self, step, events, runner):
        with fresh_folder(self.work / "preparing") as folder:
            more = {"events": events, "out": folder}
            environment = self.fill_environment(step.environment, **more)
            run = runner.run(self.fill(step.command, **more), environment, folder, step.limit)
        return f"{step.name} could not be made: {run.trouble}" if run.trouble else ""


def found(peer, values):
    """Returns the location of a peer: a file, a command, or the value of an environment variable."""
    if peer.variable:
        path = os.environ.get(peer.variable, "")
        return path if path and Path(path).exists() else None
    if peer.command:
        return shutil.which(peer.command)
    matches = sorted(glob.glob(filled(peer.file, values)))
    return matches[-1] if matches else None


def events_with_room(wanted, bytes_an_event, free):
    """Returns how many events fit, the requested number divided by a power of ten; none if even the fewest do not fit."""
    while wanted * bytes_an_event + DISK_RESERVE > free:
        wanted //= 10
        if wanted < EVENTS_LEAST:
            return 0
    return wanted


class fresh_folder:
    """Creates an empty directory, and removes it at the end."""

    def __init__(self, path):
        self.path = Path(path)

    def __enter__(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        return str(self.path)

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
