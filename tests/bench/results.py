"""Stored results: from runs to numbers, comparisons and budgets, and their files.

A number of a side is a list with one value per round. `cpu` and `wall` are seconds, `memory` is MiB; `bytes` and `captured` come from
the trace, `issued` and all other numbers from the output of the command. A side is compared with the first side of its case, round by
round.
"""

import datetime
import json
import re

import machine
import paired
import report

NANO = 1e9
RATES = {"rate", "cpu ns"}


def figures(patterns, said):
    """Returns the numbers in the output of a command, found with the patterns of the list; the last match counts."""
    found = {name: re.findall(pattern, said, re.M) for name, pattern in patterns.items()}
    return {name: float(matches[-1].replace(",", "")) for name, matches in found.items() if matches}


def unsaid(patterns, found):
    missing = [name for name in patterns if name not in found]
    return f"it printed no figure for {missing[0]}" if missing else ""


# ---- one case -------------------------------------------------------------------------------------------------------


def case(case, rows, troubles, events, others):
    """`rows` contains the runs of each side, `troubles` the reason for missing runs; `events` are the numbers read and requested."""
    events, asked = events
    operations = events or case.operations
    sides = [side(row, rows[row.name], troubles.get(row.name, ""), row.operations or operations) for row in case.sides]
    for declared, row in list(zip(case.sides, sides))[1:]:
        row["against"] = compared(sides[0]["series"], row["series"], operations)
        if declared.operations:
            leave_rates(row["against"])
    return {
        "group": case.group, "name": case.name, "note": case.note, "operations": operations, "events": events, "asked": asked,
        "others": round(others, 2), "busy": machine.is_busy(others), "sides": sides,
    }  # fmt: skip


def side(declared, runs, trouble, operations):
    series = {"cpu": [run.cpu for run in runs], "wall": [run.wall for run in runs]}
    series["memory"] = [run.memory / 1024 for run in runs]
    for name in dict.fromkeys(name for run in runs for name in run.figures):
        series[name] = [run.figures.get(name) for run in runs]
    derive(series, operations)
    medians = {name: paired.median(values).as_json() for name, values in known(series)}
    return {"name": declared.name, "is": declared.what, "trouble": trouble, "series": series, "medians": medians}


def derive(series, operations):
    """Derives numbers from others: bytes per event, lost calls, work per second."""
    if "captured" in series:
        series["bytes an event"] = divided(series["bytes"], series["captured"])
        if "issued" in series:
            pairs = zip(series["issued"], series["captured"])
            series["lost"] = [None if captured is None else issued - captured for issued, captured in pairs]
    if operations:
        series["rate"] = divided([operations] * len(series["cpu"]), series["cpu"])
        series["cpu ns"] = [value / operations * NANO for value in series["cpu"]]


def divided(above, below):
    return [a / b if a is not None and b else None for a, b in zip(above, below)]


def known(series):
    every = {name: [value for value in values if value is not None] for name, values in series.items()}
    return [(name, values) for name, values in every.items() if values]


def compared(base, series, operations):
    """Returns the ratio of every number that both sides have, and the added cost: per operation, if their number is known."""
    ratios, added = {}, {}
    for name in series.keys() & base.keys():
        if values := paired.ratios(base[name], series[name]):
            ratios[name] = paired.median(values).as_json()
        if values := paired.differences(base[name], series[name]):
            added[name] = paired.median(values)
    if operations:
        added |= {f"{name} ns": added[name].scaled(NANO / operations) for name in ("cpu", "wall") if name in added}
    return {"ratio": ratios, "added": {name: value.as_json() for name, value in added.items()}}


def leave_rates(against):
    """Compares a side that does less work only by its rate."""
    for kind in against.values():
        for name in [name for name in kind if name not in RATES]:
            del kind[name]


# ---- budgets --------------------------------------------------------------------------------------------------------


def budget(declared, cases):
    """One row of the table of budgets: the worst of its cases, or the reason why it was not measured."""
    answers = [answer(declared, name, cases) for name in declared.cases]
    reasons = [reason for _, reason in answers if reason]
    row = {"what": declared.what, "sense": declared.sense, "limit": declared.limit, "unit": declared.unit}
    row["peers"] = [peer for peer in (beside(declared, text, cases) for text in declared.peers) if peer]
    if reasons:
        return row | {"verdict": "not measured", "why": reasons[0]}
    worst = (max if declared.sense == "at most" else min)((value for value, _ in answers), key=lambda value: value["value"])
    worst = {key: value * declared.scale if key in ("value", "low", "high") else value for key, value in worst.items()}
    is_met = worst["value"] <= declared.limit if declared.sense == "at most" else worst["value"] >= declared.limit
    notes = [note for note in (smaller(cases[name]) for name in declared.cases) if note]
    ratio = round(worst["value"] / declared.limit, 3) if declared.limit else None
    return row | {"verdict": "met" if is_met else "MISSED", "seen": worst, "ratio": ratio, "why": "; ".join(notes)}


def answer(declared, name, cases):
    """Returns the number of a budget in one case, or the reason why there is none."""
    if name not in cases:
        return None, "its case is not part of this run"
    return looked_up(cases[name], declared.side, declared.figure)


def looked_up(case, side, figure):
    """`figure` is KIND.NAME: median.cpu, most.lost, ratio.wall, added.cpu ns."""
    kind, name = figure.split(".", 1)
    row = next((row for row in case["sides"] if row["name"] == side), None)
    if row is None:
        return None, f"{case['name']} has no side {side} in this run"
    if row["trouble"]:
        return None, f"{row['is']}: {row['trouble']}"
    if kind == "most":
        values = [value for value in row["series"].get(name, []) if value is not None]
        return ({"value": max(values)}, "") if values else (None, f"{name} was not counted")
    found = row["medians"] if kind == "median" else row.get("against", {}).get(kind, {})
    return (found[name], "") if name in found else (None, f"{case['name']} has no {figure} of {side}")


def beside(declared, text, cases):
    """Returns a peer's value for the budget's number: `SIDE` of the budget's first case."""
    case = cases.get(declared.cases[0])
    found = looked_up(case, text, declared.figure)[0] if case else None
    if not found:
        return None
    what = next(row["is"] for row in case["sides"] if row["name"] == text)
    return {"is": what, "value": found["value"] * declared.scale}


def smaller(case):
    return f"with {case['events']:,} events" if case["events"] < case["asked"] else ""


# ---- all of it ------------------------------------------------------------------------------------------------------


class Results:
    """All results so far. They are written after each case, so an interrupted run loses only the current case."""

    def __init__(self, kind, here, folder):
        facts = machine.facts()
        self.folder = folder / f"{facts['date'][:19].replace(':', '')}-{kind}"
        self.folder.mkdir(parents=True, exist_ok=True)
        own = machine.version([str(here.values["analyze"]), "--version"])
        self.data = {
            "schema": "dlio-bench", "version": 1, "kind": kind, "machine": facts,
            "load_before": machine.load(), "load_after": None, "seconds": 0,
            "versions": {"dlio": own} | here.versions(),
            "missing": {peer.what: peer.get for peer in here.missing_peers().values()},
            "cases": [], "micro": {"trouble": "not part of this run", "rows": [], "busy": False}, "budgets": [],
        }  # fmt: skip
        self.began = datetime.datetime.now()

    def add(self, case):
        self.data["cases"].append(case)
        self.write()

    def add_micro(self, micro):
        self.data["micro"] = micro
        self.write()

    def finish(self, budgets):
        cases = {case["name"]: case for case in self.data["cases"]}
        self.data["budgets"] = [budget(row, cases) for row in budgets]
        self.data["load_after"] = machine.load()
        self.data["seconds"] = round((datetime.datetime.now() - self.began).total_seconds())
        self.write()

    def write(self):
        write_whole(self.folder / "results.json", json.dumps(self.data, indent=1) + "\n")
        write_whole(self.folder / "results.md", report.markdown(self.data))


def write_whole(path, text):
    """Writes a file atomically."""
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


def newest(folder, kind):
    """Returns the last results of that kind, or None."""
    found = sorted(folder.glob(f"*-{kind}/results.json"))
    return json.loads(found[-1].read_text()) if found else None
