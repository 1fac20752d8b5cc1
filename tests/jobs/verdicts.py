#!/usr/bin/env python3
"""Compares the analyzer's verdict on small training jobs with what their own clocks say.

    tests/jobs/verdicts.py [--list] [--keep DIR] [--markdown] [JOB...]

Each job in ``waits/`` has a built-in cause for which its training waits, and measures it: its last line is the truth. Each runs
under ``dlio trace``; what ``dlio-analyze`` says of the trace must be true:

* the share of the training that was spent waiting for data is within 5 percentage points of the job's;
* the cause that the verdict names is the largest by the job's clock, or within 15 points of it;
  the CPU and the lack of one (or of the GIL) count as one cause as long as each is a quarter of the wait;
* no sentence of the verdict or of a finding makes a claim that is false (``CLAIMS``), and the start of readers is within 5 points.

"Unknown" is never right and never wrong. The exit status is 1 if anything false was said. Run it on an idle machine: the jobs'
clocks are true on a busy one too, but then more of them wait for a CPU.

DLIO_BIN_DIR is where the programs are (``target/dist/bin``), DLIO_TORCH_VENV an environment with PyTorch
(``~/.cache/dlio-torch-venv``); jobs with PyTorch run only there.

@JOBS@
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "waits"))
import job as jobs  # noqa: E402
from clock import OTHER, summary  # noqa: E402
from registry import JOBS, prepare  # noqa: E402

BIN = os.environ.get("DLIO_BIN_DIR", os.path.join(HERE, "..", "..", "target", "dist", "bin"))
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
TORCH = os.environ.get("DLIO_TORCH_VENV", os.path.join(CACHE, "dlio-torch-venv"))
# Of the training: a share may be off by so much.
SHARE = 0.05
# Of the wait: a cause may be smaller than the largest by so much.
CAUSE = 0.15
# From this part on, the smaller of two causes takes part.
BOTH = 0.25
SECONDS_MAX = 90

# What a report claims, by the names that clock.py has for it: patterns for its sentences.
CLAIMS = {
    "waited": r"Training waited for data|training waited .* for its batches",
    "no wait": r"did not wait for data|leave the loader alone",
    "storage": r"it was storage that|readers wait for single reads",
    "not storage": r"it was not storage|faster storage would (win|save) nothing",
    "decoding": r"\bdecod",
    "both": r"both took part",
    "more readers": r"(?<!nor )(?<!without one: )more (readers|num_workers)",
    "trains nothing": r"seems to train nothing|Nothing trained",
}

Found = collections.namedtuple("Found", "share cause start")
Row = collections.namedtuple("Row", "job truth found result false")


def find(report):
    """What the report says: the share of the training spent waiting, the cause that it names first, the share of the readers'
    start. The share is None and the cause "unknown" if it says that it does not know. All that reads the wording is here and in
    CLAIMS."""
    groups = [group for group in report["training"] if group["waited_ns"] is not None]
    trained = sum(group["trained_ns"] for group in groups)
    text = " ".join(report["verdict"])
    answer = re.search(r"Training (did not wait for data|waited for its readers to start|waited for data)", text)
    if not trained or not answer:
        return Found(None, "unknown", None)
    share = sum(group["waited_ns"] for group in groups) / trained
    start = sum(group["wait_start_ns"] or 0 for group in groups) / trained
    if answer[1].startswith("did not"):
        cause = "checkpoint" if re.search(r"stood for .* wrote and synchroni[sz]ed", text) else "none"
    elif answer[1].endswith("start") or start > share / 2:
        cause = "start"
    else:
        named = {
            "is not known": "unknown", "it was not storage": "cpu", "it was storage": "storage", "both took part": "storage+cpu",
        }
        cause = next((cause for phrase, cause in named.items() if phrase in text), "unknown")
    return Found(share, cause, start)


def sentences(report):
    """All sentences that a user reads first: those of the verdict and those of findings that fired."""
    yield from report["verdict"]
    for finding in report["findings"]:
        if finding["state"] == "fired" and not finding["silenced_by"]:
            yield f"{finding['id']}: {finding['says']}; {finding['remedy']}"


def true_causes(job, truth):
    """The causes that are right for a job: the largest, and those that are nearly as large."""
    trained, waited = truth["trained_s"], truth["waited_s"]
    parts = {cause: s for cause, s in truth["causes"].items() if cause in OTHER or waited >= SHARE * trained}
    most, total = max(parts.values(), default=0), sum(parts.values())
    causes = {cause for cause, seconds in parts.items() if seconds > 0 and seconds >= most - CAUSE * total}
    # A wait that is not for data may be named, or not.
    stands = any(cause in OTHER and cause != "checkpoint" for cause in causes)
    if most < SHARE * trained or waited < (SHARE + 0.02) * trained and (stands or not causes - {truth["cause"]}):
        if "checkpoint" not in causes:
            causes.add("none")
    # Work on a busy machine: it needs the CPU, and a CPU that is free. The one is as true as the other if neither is small.
    work = {cause: parts.get(cause, 0) for cause in ("cpu", "no-cpu", "gil")}
    if sum(work.values()) >= most - CAUSE * total:
        causes |= {cause for cause, seconds in work.items() if seconds >= BOTH * total > 0}
    if min(parts.get("storage", 0), sum(work.values())) >= BOTH * total > 0:
        causes.add("storage+cpu")
    return causes | (set(job.also) if causes & {job.cause, truth["cause"]} else set())


def compare(job, truth, report):
    found, share = find(report), truth["waited_s"] / truth["trained_s"]
    is_share = found.share is None or abs(found.share - share) <= SHARE
    if found.cause == "unknown" and is_share:
        result = "unknown"
    else:
        right = found.cause in true_causes(job, truth)
        result = "right" if right and is_share else "wrong cause" if is_share else "wrong share" if right else "wrong"
    claims = [*truth["not"], *job.never, "trains nothing"]
    false = [
        (claim, sentence) for sentence in sentences(report) for claim in dict.fromkeys(claims) if re.search(CLAIMS[claim], sentence)
    ]
    start = truth["causes"].get("start", 0) / truth["trained_s"]
    if found.start is not None and abs(found.start - start) > SHARE:
        said = next((sentence for sentence in report["verdict"] if "starting" in sentence), report["verdict"][0])
        false.append((f"start {found.start:.0%} instead of {start:.0%}", said))
    return Row(job, truth, found, result, false)


def python_for(job):
    """The Python that runs a job; None where it needs PyTorch and there is none."""
    if not job.torch:
        # Not a shim that starts it.
        return os.path.realpath(sys.executable)
    return os.path.join(TORCH, "bin", "python") if os.path.exists(os.path.join(TORCH, ".installed")) else None


def run(job, trace):
    """Runs a job under the tracer, in the current directory. Returns its truth, and the report."""
    environment = {**os.environ, "LD_PRELOAD": prepare(job)}
    script = os.path.join(HERE, "waits", "job.py")
    truth = collections.Counter()
    causes = collections.Counter()
    for _ in range(job.runs):
        command = [os.path.join(BIN, "dlio"), "trace", "-o", trace, "--", python_for(job), script, job.name]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX)
        if ended.returncode:
            raise RuntimeError(f"{job.name}: exit status {ended.returncode}\n{ended.stderr}")
        last = json.loads(ended.stdout.splitlines()[-1])
        truth.update({name: last[name] for name in ("trained_s", "waited_s")})
        causes.update(last["causes"])
    analyzed = subprocess.run(
        [os.path.join(BIN, "dlio-analyze"), trace, "--format", "json"], capture_output=True, text=True, check=True
    )
    return summary(truth["trained_s"], truth["waited_s"], causes), json.loads(analyzed.stdout)


def percent(share):
    return "-" if share is None else f"{100 * share:.0f}"


def cells(row):
    """The columns of the table."""
    truth = row.truth
    total = sum(truth["causes"].values()) or 1
    parts = sorted(truth["causes"].items(), key=lambda part: -part[1])
    built = "" if row.job.cause in true_causes(row.job, truth) else f" (built in: {row.job.cause})"
    causes = ", ".join(f"{cause} {100 * seconds / total:.0f}" for cause, seconds in parts if seconds >= 0.1 * total)
    return [
        row.job.name, truth["cause"] + built, causes, percent(truth["waited_s"] / truth["trained_s"]), percent(row.found.share),
        row.found.cause, row.result, ", ".join(dict.fromkeys(claim for claim, _ in row.false)),
    ]


TITLES = ["job", "truth", "its clock, %", "waited, %", "found, %", "cause found", "result", "false claims"]


def print_rows(rows, markdown):
    if markdown:
        print("| " + " | ".join(TITLES) + " |")
        print("|" + "---|" * len(TITLES))
        for row in rows:
            print("| " + " | ".join(cells(row)) + " |")
    else:
        table = [TITLES, *map(cells, rows)]
        widths = [max(map(len, column)) for column in zip(*table)]
        for line in table:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    false = [(row.job.name, claim, sentence) for row in rows for claim, sentence in row.false]
    print()
    if markdown:
        print("## False sentences\n\n| job | claim | sentence |\n|---|---|---|")
    for name, claim, sentence in false:
        print(f"| {name} | {claim} | {sentence} |" if markdown else f"{name}: {claim}: {sentence}")
    count = collections.Counter(row.result.split()[0] for row in rows)
    print(f"\n{len(rows)} jobs: {count['right']} right, {count['unknown']} unknown, {count['wrong']} wrong; "
          f"{len({(name, sentence) for name, _, sentence in false})} false sentences in {sum(bool(row.false) for row in rows)} jobs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="run these jobs instead of all")
    parser.add_argument("--list", action="store_true", help="print the jobs and what is built into them")
    parser.add_argument("--keep", metavar="DIR", help="keep traces, truths and reports in DIR/JOB")
    parser.add_argument("--markdown", action="store_true", help="print tables for a document")
    options = parser.parse_args()
    unknown = [name for name in options.jobs if name not in JOBS]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; --list prints all")
    chosen = [JOBS[name] for name in options.jobs or JOBS]
    if options.list:
        for job in chosen:
            print(f"{job.name:32}{job.cause:12}{job.about}")
        return 0
    skipped = [job.name for job in chosen if not python_for(job)]
    if skipped:
        print(f"skipped: {len(skipped)} jobs with PyTorch; `make setup-torch` installs it (6 GB)", file=sys.stderr)
    rows, failed = [], False
    keep = os.path.abspath(options.keep) if options.keep else None
    data = tempfile.mkdtemp(prefix="dlio-jobs-")
    os.chdir(data)
    try:
        for job in filter(python_for, chosen):
            trace = os.path.join(keep or data, job.name if keep else f"trace-{job.name}")
            shutil.rmtree(trace, ignore_errors=True)
            try:
                truth, report = run(job, trace)
            except (RuntimeError, subprocess.SubprocessError, ValueError) as error:
                print(f"{job.name} failed: {error}", file=sys.stderr)
                failed = True
                continue
            if keep:
                for name, value in (("truth", truth), ("report", report)):
                    with open(os.path.join(keep, f"{job.name}.{name}.json"), "w") as file:
                        json.dump(value, file, indent=1)
            else:
                shutil.rmtree(trace)
            rows.append(compare(job, truth, report))
            print(f"{job.name}: {rows[-1].result}", file=sys.stderr, flush=True)
    finally:
        os.chdir("/")
        shutil.rmtree(data, ignore_errors=True)
    print_rows(rows, options.markdown)
    return int(failed or any(row.false or row.result.startswith("wrong") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
