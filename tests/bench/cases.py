"""Reads the list of cases: the measured programs, their peers, the number of rounds. Runs nothing.

The grammar is documented at the head of cases.toml. Texts are templates in which `{name}` represents a location or a number;
they are filled when the case is run. This module only checks their format, so that a typo is reported before an hour of measuring.
"""

import re
import tomllib
from dataclasses import dataclass, field, replace
from itertools import product

GROUPS = ["capture", "programs", "endings", "spans", "load", "benchmark", "micro", "harness"]
SENSES = ["at most", "at least"]
HOLE = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class Wrong(Exception):
    """The list of cases is invalid; the text contains the location and the reason."""


@dataclass(frozen=True)
class Peer:
    name: str
    what: str
    get: str
    file: str = ""
    command: str = ""
    variable: str = ""
    version: list = field(default_factory=list)


@dataclass(frozen=True)
class Preparation:
    """Data that is prepared once, before the cases that read it. With `events`, fewer events if the disk is too small."""

    name: str
    command: list
    after: list = field(default_factory=list)
    peer: str = ""
    events: int = 0
    bytes_an_event: int = 0
    bytes: int = 0
    limit: float = 900
    environment: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of the compared programs. The first side of a case is the baseline."""

    name: str
    what: str
    command: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    prefix: list = field(default_factory=list)
    before: list = field(default_factory=list)
    peer: str = ""
    count: str = ""
    figures: dict = field(default_factory=dict)
    rounds: int = 0
    limit: float = 0
    prepare: list = field(default_factory=list)
    operations: float = 0
    slow: bool = False


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    sides: list
    operations: float = 0
    rounds: int = 5
    limit: float = 60
    status: int = 0
    prepare: list = field(default_factory=list)
    figures: dict = field(default_factory=dict)
    before: list = field(default_factory=list)
    note: str = ""

    @property
    def title(self):
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Budget:
    what: str
    cases: list
    side: str
    figure: str
    sense: str
    limit: float
    unit: str
    scale: float = 1.0
    peers: list = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    peers: dict
    preparations: dict
    cases: list
    budgets: list


def read(path, quick=False):
    try:
        with open(path, "rb") as file:
            return plan(tomllib.load(file), quick)
    except (OSError, tomllib.TOMLDecodeError, Wrong) as error:
        raise Wrong(f"{path}: {error}") from None


def plan(table, quick):
    expect(table, {"peer", "under", "words", "prepare", "case", "budget"}, "the list")
    table = spelled_out(table, table.pop("words", {}))
    peers = {name: made(Peer, row, f"peer {name}", name=name) for name, row in table.get("peer", {}).items()}
    under = {name: made(Side, row, f"under {name}", name=name) for name, row in table.get("under", {}).items()}
    rows = table.get("prepare", {}).items()
    preparations = {name: made(Preparation, for_run(row, quick), f"prepare {name}", name=name) for name, row in rows}
    given = table.get("case", [])
    every = [case(row, under, quick) for row in repeated(given, quick)]
    result = Plan(peers, preparations, every, [budget(row) for row in table.get("budget", [])])
    check(result, {row["name"] for row in repeated(given, False)})
    return result


def spelled_out(thing, words):
    """Returns the sides with lists of words instead of their names."""
    if isinstance(thing, list):
        known = [words[part[1:]] if isinstance(part, str) and part[:1] == "@" and part[1:] in words else [part] for part in thing]
        return [spelled_out(part, words) for parts in known for part in parts]
    return {key: spelled_out(part, words) for key, part in thing.items()} if isinstance(thing, dict) else thing


def repeated(rows, quick):
    """Returns the cases of this kind of run, with one copy per value of `each`."""
    rows = [for_run(row, quick) for row in rows if row.get("quick") or not quick]
    return [with_values(row, values) for row in rows for values in combinations(row.get("each", {}))]


def combinations(each):
    return [dict(zip(each, values)) for values in product(*each.values())]


def with_values(row, values):
    """Returns a copy of a case with its values filled in, without the sides that are only for other values."""
    row = {key: value for key, value in row.items() if key != "each"}
    sides = [side for side in row.get("side", []) if is_for(side.get("only", {}), values)]
    row |= {"side": [{key: value for key, value in side.items() if key != "only"} for side in sides]}
    return put_in(row, values)


def is_for(only, values):
    return all(values.get(name) in wanted for name, wanted in only.items())


def put_in(thing, values):
    if isinstance(thing, str):
        return HOLE.sub(lambda found: values.get(found[1], found[0]), thing)
    if isinstance(thing, list):
        return [put_in(part, values) for part in thing]
    return {key: put_in(part, values) for key, part in thing.items()} if isinstance(thing, dict) else thing


def for_run(row, quick):
    """Returns a row without its settings for quick runs or, in a quick run, with these settings applied."""
    instead = row.get("quick")
    rest = {key: value for key, value in row.items() if key != "quick"}
    return rest | instead if quick and isinstance(instead, dict) else rest


def case(row, under, quick):
    name = row.get("name", "a case without a name")
    shared, own = row.pop("sides", []), row.pop("side", [])
    command = row.pop("command", [])
    sides = [wrapped(under, side, name) for side in shared]
    sides += [made(Side, dict(side), f"{name}, side {side.get('name')}") for side in own]
    sides = [replace(side, command=side.command or command) for side in sides if not (side.slow and quick)]
    return made(Case, row, name, sides=sides)


def wrapped(under, side, name):
    if side not in under:
        raise Wrong(f"{name}: there is no [under.{side}]")
    return under[side]


def budget(row):
    row = dict(row)
    row["cases"] = row.get("cases") or [row.pop("case", "")]
    row.pop("case", None)
    return made(Budget, row, f"budget {row.get('what')}")


def made(kind, row, where, **more):
    row = dict(row) | more
    known = set(kind.__dataclass_fields__)
    expect(row, known, where)
    try:
        return kind(**row)
    except TypeError as error:
        raise Wrong(f"{where}: {str(error).split(') ')[-1]}") from None


def expect(row, known, where):
    unknown = sorted(set(row) - known)
    if unknown:
        raise Wrong(f"{where}: unknown key {unknown[0]}; known are {', '.join(sorted(known))}")


def check(plan, every_case):
    """Checks that every name refers to something that exists."""
    for case in plan.cases:
        if case.group not in GROUPS:
            raise Wrong(f"{case.name}: group {case.group} is none of {', '.join(GROUPS)}")
        if not case.sides or not all(side.command for side in case.sides):
            raise Wrong(f"{case.name}: a side without a command")
        for side in case.sides:
            known(side.peer, plan.peers, "peer", case.name)
            unknown = [word for word in side.before + side.command if word.startswith("@")]
            known(unknown[0][1:] if unknown else "", (), "list of words", case.name)
        for step in needed(case):
            known(step, plan.preparations, "prepare", case.name)
    for budget in plan.budgets:
        for name in budget.cases:
            known(name, every_case, "case", f"budget {budget.what}")
        if budget.sense not in SENSES:
            raise Wrong(f"budget {budget.what}: sense {budget.sense} is none of {', '.join(SENSES)}")


def needed(case):
    return case.prepare + [step for side in case.sides for step in side.prepare]


def known(name, names, what, where):
    if name and name not in names:
        raise Wrong(f"{where}: there is no {what} {name}")


def filled(text, values):
    """Returns the text with its placeholders filled; an unknown placeholder is an error of the list."""

    def value(found):
        if found[1] not in values:
            raise Wrong(f"{text}: nothing is called {found[1]}")
        return str(values[found[1]])

    return HOLE.sub(value, text)
