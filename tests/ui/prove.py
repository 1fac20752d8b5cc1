#!/usr/bin/env python3
"""Checks that a trace is complete in the real Perfetto UI.

    prove.py TRACE|ADDRESS [--expect FIGURES.json] [--screenshot OUT.png] [--json]

Opens the trace in the UI (see viewer.py), or the address of a server that provides both, and queries its trace processor. Fails if any
statistic reports lost, skipped or misunderstood data, if a slice has no name or no end, or if a number differs from the expected one.
The numbers matter more than the statistics: viewers drop data silently in a dozen ways.

FIGURES.json: {"slices": [{"pid"?, "tid", "name", "count", "dur", "depth", "bytes", "pos", "first", "last"}, ...],
               "instants"?: N, "deepest"?: N, "files"?: N, "spans"?: {name: [depth, calls below it]},
               "labels"?: text in the labels of all processes, "slices_max"?: N, "counters"?: {track name: samples},
               "in_flight"?: {call: the smallest number of tracks with calls in flight}, "flows"?: N, "unfinished"?: N,
               "areas"?: {track name: sum of value times seconds, to a thousandth},
               "arrows"?: the smallest number of arrows that lead to waits}
Training waits do not count as slices of threads, and their arrows do not count as flows. Slices are summed by thread and name, and so is
their nesting depth. A missing key is not compared. `first` and `last` are boot time in ns.
Exit status: 0 all checks passed, 1 a number or statistic is wrong, 2 the trace or the arguments cannot be used.
"""

import argparse
import json
import os
import pathlib
import sys

VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlio-venv"
if not sys.prefix.startswith(str(VENV)):
    python = VENV / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run {pathlib.Path(__file__).parent / 'setup.sh'} first")
    os.execv(python, [str(python), *sys.argv])

from viewer import TraceError, Viewer  # noqa: E402

# Statistics that do not indicate a problem although their name matches.
HARMLESS = {"trace_sorter_negative_timestamp_dropped"}

STATISTICS = """
    select name, severity, value, ifnull(idx, -1) as idx from stats where value > 0 and (
        severity in ('error', 'data_loss', 'notice') or name glob '*skipped*' or name glob '*_errors' or name glob '*dropped*')
"""

SLICES = """
    select coalesce(process.pid, other.pid) as pid, coalesce(thread.tid, parent_thread.tid, t.int_value) as tid, slice.name as name,
        count(*) as count, sum(slice.dur) as dur, sum(slice.depth) as depth, min(slice.ts) as first, max(slice.ts + slice.dur) as last,
        sum(b.int_value) as bytes, sum(p.int_value) as pos
    from slice
    join track on track.id = slice.track_id
    left join thread_track on thread_track.id = slice.track_id
    left join thread using (utid)
    left join thread_track parent on parent.id = track.parent_id
    left join thread parent_thread on parent_thread.utid = parent.utid
    left join process on process.upid = coalesce(thread.upid, parent_thread.upid)
    left join args b on b.arg_set_id = slice.arg_set_id and b.key in ('debug.bytes', 'args.bytes')
    left join args p on p.arg_set_id = slice.arg_set_id and p.key in ('debug.pos', 'args.pos')
    left join args t on t.arg_set_id = slice.arg_set_id and t.key = 'args.tid'
    left join process_track on process_track.id = slice.track_id
    left join process other on other.upid = process_track.upid
    where coalesce(thread.tid, parent_thread.tid, t.int_value) is not null and ifnull(slice.category, '') != 'waits'
    group by 1, 2, 3 order by 1, 2, 3
"""

FIGURES = {
    "no name": "select count(*) as n from slice where name is null",
    "no end": "select count(*) as n from slice where dur = -1",
    "deepest": "select max(depth) as n from slice where ifnull(category, '') != 'waits'",
    "files": "select count(distinct string_value) as n from args where key in ('debug.file', 'args.file')",
    "unlabelled": "select count(*) as n from process where pid != 0 and upid not in (select upid from process join args using (arg_set_id) where args.key glob 'chrome.process_label*' and string_value glob '{labels}')",
    "flows": "select count(*) as n from flow join slice on slice.id = slice_out where ifnull(category, '') != 'waits'",
    "arrows": "select count(*) as n from flow join slice made on made.id = slice_out join slice taken on taken.id = slice_in where taken.name = 'taken over' and made.ts <= taken.ts and made.track_id != taken.track_id",
    "unfinished": "select count(*) as n from slice join args using (arg_set_id) where key in ('debug.unfinished', 'args.unfinished')",
    "slices": "select count(*) as n from slice",
    "processes": "select count(*) as n from process where pid is not null and pid != 0",
    "machines": "select count(distinct machine_id) as n from process",
}


# Spans by name: the depth of the deepest, and how many calls that moved bytes are within one.
SPANS = """
    select outer_slice.name as name, max(outer_slice.depth) as depth, count(inner_slice.id) as calls
    from slice outer_slice left join (
        select slice.id, slice.ts, slice.dur, slice.track_id, slice.depth from slice join args using (arg_set_id) where args.key in ('debug.bytes', 'args.bytes') and slice.category in ('posix', 'stdio')
    ) inner_slice on inner_slice.track_id = outer_slice.track_id and inner_slice.depth > outer_slice.depth
        and inner_slice.ts >= outer_slice.ts and inner_slice.ts + inner_slice.dur <= outer_slice.ts + outer_slice.dur
    where outer_slice.category not in ('posix', 'stdio', 'process', 'wait') group by 1
"""

# Calls that overlap with others of their thread: the number of tracks, and the depth of the deepest.
IN_FLIGHT = """
    select slice.name as name, count(distinct slice.track_id) as tracks, max(slice.depth) as depth
    from slice join track on track.id = slice.track_id where track.name glob '* in flight' group by 1
"""

# Integrals of counter rates over the whole run.
AREAS = """
    select name, sum(value * length) / 1e9 as area from (
        select track.name as name, value, lead(ts) over (partition by track_id order by ts) - ts as length
        from counter join track on track.id = counter.track_id
    ) group by 1
"""


def figures(viewer, expected):
    labels = f"*{expected.get('labels', '')}*"
    found = {name: viewer.query(sql.replace("{labels}", labels))[0]["n"] for name, sql in FIGURES.items()}
    if "spans" in expected:
        found["spans"] = {row["name"]: [row["depth"], row["calls"]] for row in viewer.query(SPANS)}
    if "in_flight" in expected:
        found["in_flight"] = {row["name"]: row for row in viewer.query(IN_FLIGHT)}
    if "areas" in expected:
        found["areas"] = {row["name"]: row["area"] for row in viewer.query(AREAS)}
    found["rows"] = viewer.query(SLICES)
    found["counters"] = {
        row["name"]: row["n"]
        for row in viewer.query("select track.name as name, count(*) as n from counter join track on track.id = counter.track_id group by 1")
    }
    found["statistics"] = viewer.query(STATISTICS)
    return found


def complaints(found, expected):
    for stat in found["statistics"]:
        if stat["name"] not in HARMLESS:
            yield f"statistic {stat['name']} ({stat['severity']}) is {stat['value']}, not 0"
    for name in ("no name", "no end"):
        if found[name]:
            yield f"{found[name]} slices have {name}"
    if "labels" in expected and found["unlabelled"]:
        yield f"{found['unlabelled']} processes are not labelled {expected['labels']}"
    for name, want in expected.get("spans", {}).items():
        if found["spans"].get(name) != want:
            yield f"spans {name}: depth and calls below are {found['spans'].get(name)} in the UI, {want} expected"
    for name, least in expected.get("in_flight", {}).items():
        row = found["in_flight"].get(name, {"tracks": 0, "depth": 0})
        if row["tracks"] < least or row["depth"] > 0:
            yield f"{name} is in flight on {row['tracks']} tracks in the UI, {row['depth']} deep; {least} expected, none deep"
    if found["slices"] > expected.get("slices_max", found["slices"]):
        yield f"{found['slices']} slices, {expected['slices_max']} at most expected"
    if found["arrows"] < expected.get("arrows", 0):
        yield f"{found['arrows']} arrows lead to waits, {expected['arrows']} expected"
    for name, want in expected.get("areas", {}).items():
        area = found["areas"].get(name) or 0
        if abs(area - want) > want / 1000:
            yield f"counter {name} comes to {area:.0f} in the UI, {want} expected"
    for name in ("deepest", "files", "flows", "unfinished", "processes", "machines"):
        if name in expected and expected[name] != found[name]:
            yield f"{name}: {found[name]} in the UI, {expected[name]} expected"
    for name, samples in expected.get("counters", {}).items():
        if found["counters"].get(name) != samples:
            yield f"counter {name}: {found['counters'].get(name)} samples in the UI, {samples} expected"
    yield from wrong_slices(found["rows"], expected.get("slices"))


def wrong_slices(rows, expected):
    if expected is None:
        return
    by_process = all("pid" in row for row in expected)
    key = lambda row: (row.get("pid") if by_process else None, row["tid"], row["name"])
    seen = {key(row): row for row in rows}
    for want in expected:
        row = seen.pop(key(want), None)
        if row is None:
            yield f"{want['name']} of thread {want['tid']}: none in the UI, {want['count']} expected"
            continue
        for figure in ("count", "dur", "depth", "bytes", "pos", "first", "last"):
            if figure in want and (row[figure] or 0) != want[figure]:
                yield f"{figure} of {want['name']} of thread {want['tid']}: {row[figure]} in the UI, {want[figure]} expected"
    for _, tid, name in seen:
        yield f"{name} of thread {tid}: in the UI, but not expected"


def picture(viewer, path):
    viewer.command("dev.perfetto.ExpandAllGroups")
    viewer.settle()
    widest = viewer.query("select id from slice order by depth desc, dur desc limit 1")
    if widest:
        viewer.select_slice(widest[0]["id"])
    viewer.screenshot(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("--expect", type=pathlib.Path)
    parser.add_argument("--screenshot", type=pathlib.Path)
    parser.add_argument("--json", action="store_true", help="print the figures found")
    options = parser.parse_args()
    is_address = options.trace.startswith("http://")
    if not is_address and not pathlib.Path(options.trace).is_file():
        print(f"{options.trace}: no such file", file=sys.stderr)
        return 2
    expected = json.loads(options.expect.read_text()) if options.expect else {}
    try:
        with Viewer(options.trace) as viewer:
            found = figures(viewer, expected)
            if options.screenshot:
                picture(viewer, options.screenshot)
    except TraceError as error:
        print(f"{options.trace}: the UI says: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(found, indent=1))
    wrong = list(complaints(found, expected))
    for complaint in wrong:
        print(f"{options.trace}: {complaint}", file=sys.stderr)
    if not wrong:
        counted = "as expected" if expected else "not compared"
        print(f"{options.trace}: {found['slices']} slices, no statistic against it, figures {counted}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
