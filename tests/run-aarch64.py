#!/usr/bin/env python3
"""Builds the tracing library for aarch64 and runs a traced program under qemu-user; its trace must equal that of the
same program on this host.

    run-aarch64.py [LIBRARY]    LIBRARY: a built libdliotrace.so for aarch64, instead of building it

Needs `rustup target add aarch64-unknown-linux-gnu`, and of Debian gcc-aarch64-linux-gnu and qemu-user. qemu translates
system calls, so this tests the code for the architecture and not an aarch64 kernel.
"""

import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "aarch64-unknown-linux-gnu"
COMPILER = "aarch64-linux-gnu-gcc"
LIBRARIES = "/usr/aarch64-linux-gnu"
DIST = Path(os.environ.get("DLIO_DIST", ROOT / "target/dist"))
BIN = Path(os.environ.get("DLIO_BIN_DIR", DIST / "bin"))
PRELOAD = Path(os.environ.get("DLIO_PRELOAD", DIST / "lib/libdliotrace.so"))

# Calls that the program makes on its own files, and what it does with processes and threads.
QUERY = """select e.name, count(*) n, sum(bytes) bytes, max(pos) pos, count(distinct e.tid) threads from events e
    where file like '%/files/%' or cat = 'process' group by 1 order by 1"""

PASSED = 42


def build():
    environment = dict(os.environ, CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=COMPILER)
    environment["CC_aarch64_unknown_linux_gnu"] = COMPILER
    command = ["cargo", "build", "--quiet", "--profile", "preload", "--locked", "-p", "dlio-preload", "--target", TARGET]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / TARGET / "preload/libdliotrace.so"


def traced(folder, compiler, prefix, variables):
    """Compiles and runs the program; returns the rows of its trace."""
    folder.mkdir()
    program, work, trace = folder / "program", folder / "files", folder / "trace"
    work.mkdir()
    subprocess.run([compiler, "-O1", "-pthread", "-o", program, ROOT / "tests/systems/arch.c"], check=True)
    run = subprocess.run([*prefix, *variables(trace), program], cwd=work, timeout=120)
    assert run.returncode == PASSED, f"{compiler}: the program ends with {run.returncode}, expected {PASSED}"
    query = [BIN / "dlio-analyze", trace, "--strict", "--sql", QUERY, "--format", "csv"]
    answer = subprocess.run(query, stdout=subprocess.PIPE, check=True, text=True).stdout
    rows = list(csv.reader(io.StringIO(answer)))
    assert len(rows) > 10, f"{compiler}: the trace has few kinds of calls: {rows}"
    return rows


def main():
    for needed in (COMPILER, "qemu-aarch64"):
        if shutil.which(needed) is None:
            sys.exit(f"cannot test aarch64: {needed} is not installed; see the first lines of {Path(__file__).name}")
    library = Path(sys.argv[1]) if len(sys.argv) > 1 else build()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        qemu = ["qemu-aarch64", "-L", LIBRARIES]
        for_qemu = lambda trace: ["-E", f"LD_PRELOAD={library}", "-E", f"DLIO_TRACE_DIR={trace}"]
        here = lambda trace: ["env", f"LD_PRELOAD={PRELOAD}", f"DLIO_TRACE_DIR={trace}"]
        other, own = traced(folder / "aarch64", COMPILER, qemu, for_qemu), traced(folder / "host", "cc", [], here)
    for theirs, ours in zip(other, own):
        assert theirs == ours, f"aarch64: {theirs}, this host: {ours}"
    assert len(other) == len(own), f"aarch64: {other}\nthis host: {own}"
    print(f"aarch64 under qemu-user: {sum(int(row[1]) for row in own[1:])} calls equal those on this host")


main()
