#!/usr/bin/env python3
"""Compares predictions of ``dlio-analyze --what-if`` for changes to a loader with runs that have these changes.

    tests/jobs/what_if.py [--list] [--tries N] [--keep DIR | --again DIR] [--jobs JOB...]

Each job of ``what_if/setups.py`` is a small training run with slow storage, decoding, a lock or another reason to wait. It runs without
a tracer, alternately unchanged and with each change, and measures its own time: all passes, without imports and setup. Runs that
took 20 % longer than the best of their kind are left out because other processes used the host; the median of the rest counts. Then
the job runs under ``dlio trace``, once with spans and once without. The analyzer replays each trace with every change.

Percentages refer to the time of the unchanged job. The error of a prediction is the difference between the predicted change of the
time and the measured one. ``!`` marks measurements outside of the predicted interval, ``-`` changes that the analyzer refuses.

Exit status 1 if, over all predictions with spans or over all without them,

* the median error is above 2 %, or fewer than 95 % of the errors are within 10 %;
* fewer than 90 % of the measurements are inside their interval;
* fewer than 95 % of the changes that are worth nothing (at most 3 %) are predicted within 3.5 %;
* a job is not refused whose device computes unseen, or more than a tenth of the other jobs is refused.

``--keep DIR`` keeps traces and measurements; ``--again DIR`` judges them with the current analyzer, without running anything. A job
with workers that decode needs two idle CPUs: run this on an idle host. The last column shows how much CPU other
processes used.

DLIO_BIN_DIR is where the programs are (``target/dist/bin``), DLIO_TORCH_VENV an environment with PyTorch, DLIO_WHEEL the wheel with
the package `dliotrace` (``target/dist/wheel/*.whl``). Without PyTorch only jobs with plain processes run, without a wheel no traces
have spans.
"""

import argparse
import collections
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "what_if"), os.path.join(HERE, "waits")]
from registry import build  # noqa: E402
from setups import JOBS  # noqa: E402
from verdicts import BIN, TORCH, wheel  # noqa: E402

TRAINING = os.path.join(HERE, "what_if", "training.py")
# Runs that took longer than the best of their kind by this factor are left out.
DISTURBED = 1.2
# A traced run is used if its time is as near as this to that of the untraced ones; otherwise the nearest of some.
TRACED_WITHIN, TRACED_TRIES = 0.04, 3
NOTHING, NOTHING_WITHIN = 0.03, 0.035
SECONDS_MAX = 120


@dataclasses.dataclass(frozen=True)
class Ceiling:
    """The limits: a share of the predictions at least, or an error at most."""

    median_error: float = 0.02
    within_ten: float = 0.95
    inside: float = 0.90
    nothing: float = 0.95
    refused: float = 0.10


# ---- measuring -------------------------------------------------------------------------------------------------------


def python_for(job):
    return os.path.realpath(sys.executable) if job.setup.loader == "processes" else os.path.join(TORCH, "bin", "python")


def environment(job, spans=False):
    """Returns the environment of a job in the current directory, in which its data are made."""
    if job.setup.files:
        job.setup.files.make()
    libraries = [build("slow_files.c", "-shared", "-fPIC")]
    if job.setup.device_queue:
        libraries.append(build(os.path.join(HERE, "what_if", "fake_driver.c"), "-shared", "-fPIC"))
    with open("counter", "wb") as file:
        file.write(bytes(4096))
    made = {
        **os.environ, "LD_PRELOAD": ":".join(libraries), "DLIO_SLOW_COUNTER": os.path.abspath("counter"), "PYTHONWARNINGS": "ignore",
    }
    if spans:
        if not os.path.exists("package"):
            zipfile.ZipFile(wheel()).extractall("package")
        made.update(PYTHONPATH=os.path.abspath("package"), DLIO_LIB=os.path.abspath(os.path.join(BIN, "..", "lib")), WHAT_IF_SPANS="1")
    return made


def preferred(command):
    """Returns the command with a higher priority if this process may have one."""
    return ["nice", "-n", "-5", *command] if os.geteuid() == 0 else command


def measure(job, tries):
    """Runs a job without a tracer, as it is and with each change in turn. Returns a list of results for each. A job whose changes
    cannot be predicted runs as it is."""
    runs = {change: [] for change in ("", *(() if job.refuses else job.changes))}
    command = preferred([python_for(job), TRAINING, job.name, "--series"])
    with subprocess.Popen(command, env=environment(job), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as series:
        for _ in range(tries):
            for change, results in runs.items():
                print(change, file=series.stdin, flush=True)
                result = json.loads(series.stdout.readline() or "null")
                if result is None:
                    series.stdin.close()
                    raise RuntimeError(f"{job.name} {change}: the job failed")
                results.append(result)
    return runs


def trace(job, folder, spans):
    """Runs a job under the tracer. Returns its result."""
    shutil.rmtree(folder, ignore_errors=True)
    program = [TRAINING, job.name]
    if spans:
        torch = [] if job.setup.loader == "processes" else ["--torch"]
        command = [python_for(job), "-m", "dliotrace", "run", "--quiet", *torch, "-o", folder, *program]
    else:
        command = [os.path.join(BIN, "dlio"), "trace", "-o", folder, "--", python_for(job), *program]
    ended = subprocess.run(
        preferred(command), env=environment(job, spans), capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{job.name}: exit status {ended.returncode}\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def trace_near(job, folder, spans, seconds):
    """Traces a job, some times if its time is far from ``seconds``. Keeps the nearest."""
    best = None
    for _ in range(TRACED_TRIES):
        result = trace(job, folder + ".part", spans)
        distance = abs(result["trained_s"] / seconds - 1)
        if best is None or distance < best[0]:
            best = (distance, result)
            shutil.rmtree(folder, ignore_errors=True)
            os.rename(folder + ".part", folder)
        if best[0] <= TRACED_WITHIN:
            break
    shutil.rmtree(folder + ".part", ignore_errors=True)
    return best[1]


def record(job, folder, tries):
    """Measures and traces a job. Its traces are in the folder, its measurements in a file there."""
    measured = {"runs": measure(job, tries), "traced": {}}
    seconds = typical(measured["runs"][""])
    for kind in KINDS:
        if kind == "calls" or wheel():
            measured["traced"][kind] = trace_near(job, trace_of(job, folder, kind), kind == "spans", seconds)
    with open(os.path.join(folder, f"{job.name}.json"), "w") as file:
        json.dump(measured, file, indent=1)


# With spans, and of calls alone.
KINDS = ("spans", "calls")


def trace_of(job, folder, kind):
    return os.path.join(folder, f"{job.name}.{kind}")


def undisturbed(results):
    best = min(result["trained_s"] for result in results)
    return [result for result in results if result["trained_s"] <= DISTURBED * best]


def typical(results, key="trained_s"):
    """Returns the median of the runs that nothing disturbed."""
    return statistics.median(result[key] for result in undisturbed(results))


# ---- judging ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Prediction:
    """Changes of the time, as shares of it. ``predicted`` is None if the analyzer refuses this change."""

    change: str
    predicted: float
    low: float
    high: float
    measured: float

    @property
    def error(self):
        """The difference, as a share of the time of the unchanged job."""
        return abs(self.predicted - self.measured)

    @property
    def is_inside(self):
        return self.low <= self.measured <= self.high

    @property
    def is_nothing(self):
        return abs(self.measured) <= NOTHING

    def text(self):
        measured = f"{100 * self.measured:+.0f}"
        if self.predicted is None:
            return f"{self.change} -/{measured}"
        return f"{self.change} {100 * self.predicted:+.0f}/{measured}{'' if self.is_inside else '!'}"


@dataclasses.dataclass(frozen=True)
class Row:
    """The predictions from one trace of a job. ``refused`` is the analyzer's reason, or None."""

    job: object
    kind: str
    measured: dict
    answer: dict
    refused: str
    predictions: list

    def time(self):
        seconds = typical(self.measured["runs"][""])
        waited = typical(self.measured["runs"][""], "waited_s")
        return f"{seconds:.2f} s, {100 * waited / seconds:.0f} %"

    def replayed(self):
        """Returns the errors of the replay without changes, by the clock of the traced job: of the time, and of the wait."""
        if self.refused:
            return f"refused: {self.refused}"
        own, answer = self.measured["traced"][self.kind], self.answer
        time = answer["replayed_ns"] / 1e9 / own["trained_s"] - 1
        wait = answer["replayed_wait_ns"] / 1e9 / own["waited_s"] - 1
        return f"{100 * time:+.0f} / {100 * wait:+.0f}"

    def others(self):
        runs = [result["others"] for results in self.measured["runs"].values() for result in undisturbed(results)]
        return f"{100 * max(statistics.mean(runs), 0):.0f} %"

    def traced(self):
        return f"{100 * (self.measured['traced'][self.kind]['trained_s'] / typical(self.measured['runs']['']) - 1):+.0f} %"

    def cells(self):
        changes = ", ".join(prediction.text() for prediction in self.predictions)
        return [self.job.name, self.time(), self.replayed(), changes, self.traced(), self.others()]


TITLES = ["job", "time, wait", "replayed: time / wait", "changes: predicted/measured, %", "traced run", "other load"]


def ask(job, folder, kind):
    """Returns the analyzer's answer about one trace."""
    asked = [argument for change in job.changes for argument in ("--what-if", change)]
    command = [os.path.join(BIN, "dlio-analyze"), trace_of(job, folder, kind), "--no-cache", *asked, "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if ended.returncode:
        raise RuntimeError(f"{job.name}.{kind}: {' '.join(command)}: exit status {ended.returncode}\n{ended.stderr}")
    return json.loads(ended.stdout)["what_if"] or {"refused": "the report shows no training"}


def judge(job, folder, kind):
    """Compares the predictions from one trace with the measurements."""
    with open(os.path.join(folder, f"{job.name}.json")) as file:
        measured = json.load(file)
    answer = ask(job, folder, kind)
    if answer["refused"]:
        return Row(job, kind, measured, answer, answer["refused"], [])
    base, seconds = answer["measured_ns"], typical(measured["runs"][""])
    found = {change["change"]: change for change in answer["changes"]}
    predictions = []
    for change in job.changes:
        # Changes that were measured for another version of the job are not of this one.
        if change not in measured["runs"]:
            continue
        time, low, high = (
            None if found[change].get(name) is None else found[change][name] / base - 1 for name in ("time_ns", "low_ns", "high_ns")
        )
        predictions.append(Prediction(change, time, low, high, typical(measured["runs"][change]) / seconds - 1))
    refused = "each change" if predictions and all(prediction.predicted is None for prediction in predictions) else None
    return Row(job, kind, measured, answer, refused, predictions)


@dataclasses.dataclass(frozen=True)
class Totals:
    number: int
    median_error: float
    within_five: float
    within_ten: float
    inside: float
    nothings: int
    nothing: float
    refused: list
    not_refused: list
    jobs: int

    def text(self):
        lines = [
            f"{self.number} predictions: median error {percent(self.median_error, 1)}, {percent(self.within_five)} within 5 %, "
            f"{percent(self.within_ten)} within 10 %, {percent(self.inside)} of the measurements inside the interval, "
            f"{percent(self.nothing)} of {self.nothings} changes worth nothing right."
        ]
        if self.refused:
            lines.append(f"Refused: {', '.join(self.refused)}.")
        if self.not_refused:
            lines.append(f"Not refused, but the time of the device is not in the trace: {', '.join(self.not_refused)}.")
        return " ".join(lines)

    def failures(self, ceiling):
        """Yields what is below its limit."""
        if self.number and self.median_error > ceiling.median_error:
            yield f"median error {percent(self.median_error, 1)}"
        for name, share, least in (
            ("within 10 %", self.within_ten, ceiling.within_ten),
            ("inside the interval", self.inside, ceiling.inside),
            ("worth nothing", self.nothing, ceiling.nothing),
        ):
            if share < least:
                yield f"{name}: {percent(share)}, at least {percent(least)} are required"
        needed = [name for name in self.refused if not JOBS[name].may_refuse]
        if len(needed) > ceiling.refused * self.jobs:
            yield f"refused {len(needed)} of {self.jobs} jobs: {', '.join(needed)}"
        if self.not_refused:
            yield f"not refused: {', '.join(self.not_refused)}"


def percent(share, digits=0):
    return f"{100 * share:.{digits}f} %"


def share_of(items, is_right):
    """Returns the share of the items that are right."""
    items = list(items)
    return sum(map(is_right, items)) / len(items) if items else 1.0  # Without items there is nothing to fail.


def totals(rows):
    """Returns the totals of rows of one kind."""
    to_refuse = [row for row in rows if row.job.refuses]
    others = [row for row in rows if not row.job.refuses]
    predictions = [prediction for row in others for prediction in row.predictions if prediction.predicted is not None]
    errors = [prediction.error for prediction in predictions]
    nothings = [prediction for prediction in predictions if prediction.is_nothing]
    return Totals(
        number=len(predictions),
        median_error=statistics.median(errors) if errors else 0.0,
        within_five=share_of(errors, lambda error: error <= 0.05),
        within_ten=share_of(errors, lambda error: error <= 0.10),
        inside=share_of(predictions, lambda prediction: prediction.is_inside),
        nothings=len(nothings),
        nothing=share_of(nothings, lambda prediction: prediction.error <= NOTHING_WITHIN),
        refused=[row.job.name for row in others if row.refused],
        not_refused=[row.job.name for row in to_refuse if not row.refused],
        jobs=sum(not row.job.may_refuse for row in others),
    )


def print_rows(rows):
    """Prints a table for each kind of trace. Returns True if all limits are met."""
    right = True
    by_kind = collections.defaultdict(list)
    for row in rows:
        by_kind[row.kind].append(row)
    for kind, found in by_kind.items():
        print(f"## Traces {'with spans' if kind == 'spans' else 'of calls alone'}\n")
        print("| " + " | ".join(TITLES) + " |")
        print("|" + "---|" * len(TITLES))
        for row in found:
            print("| " + " | ".join(row.cells()) + " |")
        total = totals(found)
        print(f"\n{total.text()}\n")
        for failure in total.failures(Ceiling()):
            right = False
            print(f"Failed: {failure}.\n")
    return right


# ---- the command -----------------------------------------------------------------------------------------------------


def options_of():
    summary, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details.partition("\n\n")[2], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", nargs="+", metavar="JOB", default=[], help="run these jobs instead of all")
    parser.add_argument("--tries", type=int, default=5, metavar="N", help="run a job and each of its changes N times [default: 5]")
    parser.add_argument("--list", action="store_true", help="print the jobs and their changes")
    parser.add_argument("--keep", metavar="DIR", help="keep traces and measurements in DIR")
    parser.add_argument("--again", metavar="DIR", help="judge what --keep DIR kept, without running the jobs")
    parser.add_argument("--record", action="store_true", help="only fill the directory of --keep, without asking the analyzer")
    options = parser.parse_args()
    unknown = [name for name in options.jobs if name not in JOBS]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; --list prints all")
    if options.tries < 1:
        parser.error("--tries: expected a number of at least 1")
    if options.keep and options.again or options.record and not options.keep:
        parser.error("--keep excludes --again, and --record needs --keep")
    if not options.list and not os.path.exists(os.path.join(BIN, "dlio-analyze")):
        parser.error(f"{BIN}: no dlio-analyze; run `make build`, or set DLIO_BIN_DIR")
    return options


def runnable(jobs):
    """Returns the jobs that this host can run."""
    if os.path.exists(os.path.join(TORCH, ".installed")):
        return jobs
    chosen = [job for job in jobs if job.setup.loader == "processes"]
    print(f"skipped: {len(jobs) - len(chosen)} jobs without PyTorch; `make setup-torch` installs it (6 GB)", file=sys.stderr)
    return chosen


def was_kept(job, folder, kind):
    return os.path.exists(os.path.join(folder, f"{job.name}.json")) and os.path.isdir(trace_of(job, folder, kind))


def main():
    options = options_of()
    chosen = [JOBS[name] for name in options.jobs or JOBS]
    if options.list:
        for job in chosen:
            print(f"{job.name:22}{job.about}: {' '.join(job.changes)}")
        return 0
    folder = os.path.abspath(options.again or options.keep or tempfile.mkdtemp(prefix="dlio-what-if-kept-"))
    data = tempfile.mkdtemp(prefix="dlio-what-if-")
    os.makedirs(folder, exist_ok=True)
    os.chdir(data)
    rows, failed = [], False
    try:
        for job in chosen if options.again else runnable(chosen):
            try:
                if not options.again:
                    print(job.name, file=sys.stderr, flush=True)
                    record(job, folder, options.tries)
                if not options.record:
                    rows += [judge(job, folder, kind) for kind in KINDS if was_kept(job, folder, kind)]
            except (OSError, RuntimeError, subprocess.SubprocessError, ValueError, KeyError) as error:
                print(f"{job.name} failed: {error!r}", file=sys.stderr)
                failed = True
    finally:
        os.chdir("/")
        shutil.rmtree(data, ignore_errors=True)
        if not options.again and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return int(bool(rows) and not print_rows(rows) or failed)


if __name__ == "__main__":
    sys.exit(main())
