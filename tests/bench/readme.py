#!/usr/bin/env python3
"""Writes the tables of the last full run into BENCHMARKS.md: `readme.py [DOCUMENT] [--results FILE] [--then FILE ...]`.

Replaces the text between `<!-- bench: NAME -->` and `<!-- bench: end -->` by table NAME of that run. If a marker has another name or no
end, this is an error, and nothing is written. `--then` names a later run of some cases,
which replace those of the full run; the document mentions it.
"""

import argparse
import json
import re
import sys
from pathlib import Path

import places
import report
import results

MARKED = re.compile(r"(<!-- bench: (?!end)(\S+) -->\n).*?(<!-- bench: end -->)", re.S)


class Wrong(Exception):
    pass


def filled(text, data):
    """Returns the text with every table regenerated."""

    def table(found):
        if found[2] not in TABLES:
            raise Wrong(f"there is no table {found[2]}; there are {', '.join(TABLES)}")
        return f"{found[1]}{TABLES[found[2]](data)}\n{found[3]}"

    opened, closed = len(re.findall(r"<!-- bench: (?!end)", text)), text.count("<!-- bench: end -->")
    if opened != closed or not opened:
        raise Wrong(f"{opened} markers begin a table and {closed} end one")
    return MARKED.sub(table, text)


def merged(data, later):
    """Returns the full run with its cases replaced by those of a later one."""
    newer = {case["name"]: case for case in later["cases"]}
    unknown = newer.keys() - {case["name"] for case in data["cases"]}
    if unknown:
        raise Wrong(f"the full run has no case {', '.join(sorted(unknown))}")
    promised = {row["what"]: row for row in later["budgets"] if row["verdict"] != "not measured"}
    return data | {
        "cases": [newer.get(case["name"], case) for case in data["cases"]],
        "budgets": [promised.get(row["what"], row) for row in data["budgets"]],
        "later": [*data.get("later", []), later],
    }


# ---- tables ---------------------------------------------------------------------------------------------------------


# Titles of the groups of cases in the document.
TITLES = {
    "capture": "Traced calls", "programs": "Whole programs", "load": "Summaries of large traces", "benchmark": "The benchmark",
}  # fmt: skip


def provenance(data):
    return " ".join([report.provenance(data), *(of_its_own(later) for later in data.get("later", []))])


def of_its_own(later):
    groups = dict.fromkeys(TITLES.get(case["group"], case["group"]) for case in later["cases"])
    load = f"load {later['load_before']} before, {later['load_after']} after"
    return f"{', '.join(groups)}: a separate run, {load}."


def budgets(data):
    return report.markdown_table(report.budget_rows(data["budgets"]))


def capture(data):
    """Returns the cost of a call under each tracer: added CPU time, and the run time of two threads."""
    modes = ["pread", "read", "write", "stat", "openclose", "fread", "mixed"]
    heads = ["dlio, .dlt", "as it comes", "summary mode", "off", "DFTracer", "Darshan"]
    rows = [["", *heads, "2 threads, wall: dlio", "DFTracer", "Darshan"]]
    for mode in modes:
        one, two = of(data, f"{mode}, 1 thread"), of(data, f"{mode}, 2 threads")
        sides = ("native", "auto", "counted", "off", "dftracer", "darshan")
        added = [value(one, side, "added", "cpu ns") + blindness(one, side) for side in sides]
        walls = [value(two, side, "ratio", "wall", "×") for side in ("native", "dftracer", "darshan")]
        rows.append([f"`{mode}`", *added, *walls])
    return report.markdown_table(rows)


def blindness(case, side):
    """Returns the tracers that cost nothing because they record nothing."""
    return " (sees none)" if value(case, side, "medians", "captured") == "0" else ""


def programs(data):
    rows = [["CPU", "dlio, .dlt", "as it comes", "summary mode", "filtered", "off", "DFTracer", "Darshan", "strace -f -c"]]
    sides = ("native", "auto", "counted", "filtered", "off", "dftracer", "darshan", "strace")
    for case in group(data, "programs"):
        rows.append([case["name"], *(value(case, side, "ratio", "cpu", "×") for side in sides)])
    return report.markdown_table(rows)


def load(data):
    rows = [["summary of", "by", "CPU s", "wall s", "peak MiB", "events found"]]
    for case in group(data, "load"):
        for side in case["sides"]:
            figures = [value(case, side["name"], "medians", name) for name in ("cpu", "wall", "memory", "events")]
            rows.append([case["name"], side["is"], *figures, *([side["trouble"]] if side["trouble"] else [])])
    return report.markdown_table(rows)


# The result and its unit that represent a case of the benchmark, by the first word of its name.
FIGURES = {
    "start-up": ("wall", "s"), "generation": ("rate", "GB/CPU s"), "reads": ("MB/s", "MB/s"),
    "checkpoint": ("GiB/s", "GiB/s"), "trace": ("cpu", "CPU s"),
}  # fmt: skip


def benchmark(data):
    rows = [["benchmark", "dlio bench", "compared with", "peer"]]
    for case in group(data, "benchmark"):
        name, unit = FIGURES[case["name"].split(",")[0]]
        own = next(side["name"] for side in case["sides"] if side["name"] in ("dlio", "traced"))
        others = [side for side in case["sides"] if side["name"] != own and not side["trouble"]]
        beside = [value(case, side["name"], "medians", name) for side in others]
        if own == "traced":
            rows.append([case["name"], value(case, own, "ratio", "cpu", "×") + " CPU", *beside, "CPU s untraced"])
        else:
            ours = value(case, own, "medians", name)
            rows.append([case["name"], f"{ours} {unit}", ", ".join(beside), ", ".join(side["is"] for side in others)])
    return report.markdown_table(rows)


def pieces(data):
    return report.markdown_table(report.micro_rows(data["micro"]))


TABLES = {
    "provenance": provenance, "budgets": budgets, "capture": capture, "pieces": pieces, "programs": programs,
    "load": load, "benchmark": benchmark,
}  # fmt: skip


def group(data, name):
    return [case for case in data["cases"] if case["group"] == name]


def of(data, name):
    return next((case for case in data["cases"] if case["name"] == name), None)


def value(case, side, kind, name, sign=""):
    """Returns a median as text, or a dash if it was not measured."""
    row = next((row for row in case["sides"] if row["name"] == side), None) if case else None
    found = row and (row["medians"] if kind == "medians" else row.get("against", {}).get(kind, {})).get(name)
    return sign + report.number(found["value"]) if found else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("document", type=Path, nargs="?", default=places.ROOT / "BENCHMARKS.md")
    parser.add_argument("--results", type=Path, help="a results.json (default: that of the last full run)")
    parser.add_argument("--then", type=Path, action="append", default=[], help="of a later run of some of its cases")
    chosen = parser.parse_args()
    folder = places.target() / "bench"
    data = json.loads(chosen.results.read_text()) if chosen.results else results.newest(folder, "full")
    if data is None:
        raise Wrong(f"no full run in {folder}: `make bench` makes one")
    if not data["budgets"]:
        raise Wrong("the last full run was stopped before its end")
    for later in chosen.then:
        data = merged(data, json.loads(later.read_text()))
    results.write_whole(chosen.document, filled(chosen.document.read_text(), data))


if __name__ == "__main__":
    try:
        main()
    except (Wrong, OSError, ValueError, KeyError) as error:
        sys.exit(f"readme: {error}")
