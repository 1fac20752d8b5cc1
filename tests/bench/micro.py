"""Runs the micro-benchmarks of micro/ and reads criterion's results: nanoseconds per event, with a limit for each."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

import places

PIECES = ["capture/clock", "capture/record", "capture/flush", "storage/encode", "storage/decode"]
LIMITS = {
    "capture/clock": "two readings of the processor's counter",
    "capture/record": "48 bytes copied",
    "capture/flush": "zstd 1 on the same columns",
    "storage/encode": "the records copied",
    "storage/decode": "zstd's decompression of the same bytes",
}
TIME_LIMIT = 600


def measure(quick):
    """Returns a row per part, or the error."""
    with tempfile.TemporaryDirectory(prefix="dlio-micro.") as folder:
        try:
            said = subprocess.run(
                command(quick), env=environment(folder), capture_output=True, text=True, timeout=TIME_LIMIT
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"trouble": f"the micro-benchmarks did not run: {error}", "rows": []}
        if said.returncode != 0:
            return {"trouble": f"the micro-benchmarks failed: {said.stderr.strip().splitlines()[-1:]}", "rows": []}
        return {"trouble": "", "rows": [row(Path(folder), piece) for piece in PIECES]}


def command(quick):
    seconds = "0.3" if quick else "1"
    return [
        "cargo", "bench", "--quiet", "--manifest-path", str(places.HERE / "micro/Cargo.toml"),
        "--target-dir", str(places.target() / "micro"),
        "--", "--noplot", "--warm-up-time", seconds, "--measurement-time", seconds, "--sample-size", "30", "--nresamples", "2000",
    ]  # fmt: skip


def environment(folder):
    trace = {"DLIO_TRACE_DIR": f"{folder}/trace", "DLIO_TRACE_FORMAT": "native"}
    return os.environ | trace | {"CRITERION_HOME": folder}


def row(folder, piece):
    return {"piece": piece, "ns": nanoseconds(folder, piece), "limit_ns": nanoseconds(folder, f"{piece} limit"), "limit": LIMITS[piece]}


def nanoseconds(folder, name):
    """Returns the median of one event and its interval, or None if it was not measured, as on other processors."""
    found = folder / name / "new"
    try:
        estimate = json.loads((found / "estimates.json").read_text())["median"]
        events = json.loads((found / "benchmark.json").read_text())["throughput"]["Elements"]
    except (OSError, KeyError, ValueError):
        return None
    interval = estimate["confidence_interval"]
    values = (estimate["point_estimate"], interval["lower_bound"], interval["upper_bound"])
    return [round(value / events, 3) for value in values]
