#!/usr/bin/env python3
"""Checks an archive of a trace and a profile of torch.profiler in the real Perfetto UI.

    archive.py ARCHIVE.zip TIMES.json PROFILE.json.gz [--screenshot OUT.png]
    archive.py --hosts N ARCHIVE.zip

The program (programs/profiled.py) noted the Unix times around the start of each step, which is a slice of the profile, and around its
read, which is a slice of dlio. Both slices must be there within 50 us, every slice of the profile must be in the viewer, and no statistic
may report dropped data. With --hosts, the archive has no profile, and the slices of N machines start and end at the same time.
"""

import argparse
import gzip
import json
import os
import pathlib
import sys
import zipfile

VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlio-venv"
if not sys.prefix.startswith(str(VENV)):
    os.execv(VENV / "bin" / "python", [str(VENV / "bin" / "python"), *sys.argv])

from prove import STATISTICS  # noqa: E402
from viewer import Viewer  # noqa: E402

LARGEST_ERROR_NS = 50_000

READS = """
    select b.int_value - 1000 as step, s.ts as ts, s.dur as dur from slice s join args b on b.arg_set_id = s.arg_set_id
    and b.key = 'debug.bytes' where s.name = 'pread' and b.int_value >= 1000 order by s.ts
"""


MACHINES = """
    select p.machine_id as machine, min(s.ts) as first, max(s.ts + s.dur) as last from slice s join thread_track t on t.id = s.track_id
    join thread using (utid) join process p using (upid) group by 1
"""


def check_hosts(archive, number):
    with Viewer(archive) as viewer:
        machines = viewer.query(MACHINES)
    apart = [max(int(row[end]) for row in machines) - min(int(row[end]) for row in machines) for end in ("first", "last")]
    if len(machines) != number or max(apart) > LARGEST_ERROR_NS:
        sys.exit(f"{len(machines)} machines, {number} expected; their starts and ends are {apart} ns apart")
    print(f"{number} machines, at most {max(apart) / 1000} us apart")


def unix_offset(archive):
    """Returns the Unix time of the archive's zero, which its copy of the profile has as the origin of its times."""
    with zipfile.ZipFile(archive) as members:
        names = [name for name in members.namelist() if name.endswith(".json") and name != "perfetto_manifest.json"]
        return json.loads(members.read(names[0]))["baseTimeNanoseconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive")
    parser.add_argument("times", nargs="?")
    parser.add_argument("profile", nargs="?")
    parser.add_argument("--screenshot")
    parser.add_argument("--hosts", type=int)
    typed = parser.parse_args()
    if typed.hosts:
        return check_hosts(typed.archive, typed.hosts)
    times, zero = json.load(open(typed.times)), unix_offset(typed.archive)
    with gzip.open(typed.profile) as file:
        slices = sum(event.get("ph") == "X" for event in json.load(file)["traceEvents"])
    with Viewer(typed.archive) as viewer:
        steps = {int(row["name"].split()[1]): row for row in viewer.query("select name, ts, dur from slice where name glob 'step *'")}
        reads = {int(row["step"]): row for row in viewer.query(READS)}
        shown = viewer.query("select count(*) as n from slice where ifnull(category, '') in ('cpu_op', 'user_annotation', 'Trace', 'python_function')")
        statistics = viewer.query(STATISTICS)
        if typed.screenshot:
            viewer.screenshot(typed.screenshot)
    errors = [f"statistic {row['name']} is {row['value']}, not 0" for row in statistics]
    worst = 0
    for step, (before, inside, after) in enumerate(times):
        if step not in steps or step not in reads:
            errors.append(f"step {step} or its read is missing")
            continue
        for row, first, last in ((steps[step], before, inside), (reads[step], inside, after)):
            start = int(row["ts"]) + zero
            worst = max(worst, first - start, start - last)
    if worst > LARGEST_ERROR_NS:
        errors.append(f"a slice is {worst / 1000} us from its time")
    if int(shown[0]["n"]) != slices:
        errors.append(f"{shown[0]['n']} slices of the profile in the viewer, {slices} expected")
    print(f"{len(times)} steps and reads, at most {max(worst, 0) / 1000} us from their times; {slices} slices of the profile")
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
