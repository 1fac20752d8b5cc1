"""Formats results: lines during the run, a Markdown document, and the tables of BENCHMARKS.md."""

UPPER_BOUNDS = "host busy: numbers are upper limits"
ENOUGH_ROUNDS = 2

# Kinds of column: heading, source of the value, format.
HEADS = {
    "cpu": "CPU s", "wall": "wall s", "cpu ratio": "CPU", "wall ratio": "wall", "added": "added CPU, ns",
    "memory": "peak MiB", "bytes an event": "B/event", "captured": "captured", "lost": "lost", "bytes": "trace MB",
    "rate": "GB/CPU s", "cpu ns": "CPU ns/event",
}  # fmt: skip
COLUMNS = {
    "capture": ["added", "cpu ratio", "wall ratio", "memory", "bytes an event", "captured"],
    "programs": ["cpu", "cpu ratio", "wall ratio", "memory", "bytes", "captured"],
    "endings": ["captured", "lost"],
    "spans": [],
    "load": ["cpu", "cpu ratio", "wall", "wall ratio", "memory", "cpu ns"],
    "benchmark": ["cpu", "cpu ratio", "wall", "wall ratio", "memory", "rate", "rate ratio"],
    "harness": ["cpu", "cpu ratio", "wall ratio"],
}
# These series of a side have separate columns; every other one comes from the command's output.
OWN = {"cpu", "wall", "memory", "bytes", "captured", "issued", "lost", "bytes an event", "rate", "cpu ns"}


# ---- numbers --------------------------------------------------------------------------------------------------------


def number(value):
    """Returns a number with its significant digits: three, or two for a small one."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1000 or size == int(size):
        return f"{value:,.0f}"
    if size < 0.1:
        return f"{value:.2g}"
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def spread(median, sign=""):
    """Returns a median and its interval, or a single value."""
    if not median:
        return "-"
    if median["count"] < ENOUGH_ROUNDS:
        return sign + number(median["value"])
    return f"{sign}{number(median['value'])} ({number(median['low'])} to {number(median['high'])})"


def cell(case, side, column):
    medians, against = side["medians"], side.get("against", {"ratio": {}, "added": {}})
    if column.endswith(" ratio"):
        return spread(against["ratio"].get(column.removesuffix(" ratio")), "×")
    if column == "added":
        return spread(against["added"].get("cpu ns"))
    if column == "captured":
        return captured(medians)
    if column == "lost":
        return number(max((value for value in side["series"].get("lost", []) if value is not None), default=None))
    if column == "bytes":
        return number(medians["bytes"]["value"] / 1e6) if "bytes" in medians else "-"
    return number(medians[column]["value"]) if column in medians else "-"


def captured(medians):
    if "captured" not in medians:
        return "-"
    count = medians["captured"]["value"]
    if "issued" not in medians or count == 0:
        return number(count)
    issued = medians["issued"]["value"]
    if count == issued:
        return "all"
    share = f"{100 * count / issued:.3g} %"
    return f"all but {number(issued - count)}" if share == "100 %" and count < issued else share


def columns(case):
    """Returns the columns of the group that have a value for a side, and those of the commands' output."""
    said = [name for side in case["sides"] for name in side["series"] if name not in OWN]
    printed = [column for name in dict.fromkeys(said) for column in (name, f"{name} ratio")]
    wanted = COLUMNS.get(case["group"], []) + printed
    return [column for column in wanted if any(cell(case, side, column) != "-" for side in case["sides"])]


def table(case):
    """Returns rows of texts, the heading first."""
    shown = columns(case)
    heads = [HEADS.get(name) or ("×" if name.endswith(" ratio") else name) for name in shown]
    rows = [["", *heads]]
    for side in case["sides"]:
        texts = ["" if side["trouble"] and not side["medians"] else cell(case, side, name) for name in shown]
        rows.append([side["is"], *texts] + ([side["trouble"]] if side["trouble"] else []))
    return rows


# ---- text -----------------------------------------------------------------------------------------------------------


def aligned(rows):
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        parts = [text.ljust(width) if i == 0 else text.rjust(width) for i, (text, width) in enumerate(zip(row, widths))]
        lines.append("  " + "  ".join(parts + row[len(widths):]).rstrip())
    return "\n".join(lines)


def head(data):
    facts = data["machine"]
    lines = [f"dlio bench, {data['kind']} run", f"  {machine_line(facts)}", f"  load {data['load_before']} before"]
    lines.append("  versions: " + ", ".join(f"{name} {version}" for name, version in data["versions"].items()))
    lines += [f"  missing: {name}; {get}" for name, get in data["missing"].items()]
    return "\n".join(lines)


def machine_line(facts):
    return (
        f"{facts['date'][:10]}, {facts['cores']} cores of {facts['processor']}, {facts['memory_gib']} GiB, "
        f"Linux {facts['kernel']}, {facts['libc']}"
    )  # fmt: skip


def case_text(case):
    busy = f"; others took {case['others']} cores, {UPPER_BOUNDS}" if case["busy"] else ""
    size = f", {case['events']:,} events" if case["events"] else ""
    return f"\n{case['group']}: {case['name']}{size}{busy}\n{common_trouble(case) or aligned(table(case))}"


def common_trouble(case):
    """Returns the common reason if nothing of a case could be measured."""
    troubles = {side["trouble"] for side in case["sides"]}
    return f"  {troubles.pop()}" if len(troubles) == 1 and not any(side["medians"] for side in case["sides"]) else ""


def micro_text(micro):
    if micro["trouble"]:
        return f"\nmicro: {micro['trouble']}"
    return f"\n{micro_title(micro)}\n{aligned(micro_rows(micro))}"


def micro_title(micro):
    return "micro: nanoseconds per event" + (f"; {UPPER_BOUNDS}" if micro["busy"] else "")


def micro_rows(micro):
    rows = [["", "ns", "limit, ns", "the limit is"]]
    for row in micro["rows"]:
        values = [number(row[key][0]) if row[key] else "-" for key in ("ns", "limit_ns")]
        rows.append([row["piece"].split("/")[1], *values, row["limit"]])
    return rows


def budget_rows(budgets):
    rows = [["budget", "limit", "measured", "ratio", "", "peers", ""]]
    for row in budgets:
        limit = f"{row['sense']} {number(row['limit'])} {row['unit']}".strip()
        peers = ", ".join(f"{peer['is']} {number(peer['value'])}" for peer in row["peers"])
        seen = number(row["seen"]["value"]) if "seen" in row else "-"
        ratio = "" if row.get("ratio") is None else number(row["ratio"])
        rows.append([row["what"], limit, seen, ratio, row["verdict"], peers, row["why"]])
    return rows


def budget_text(budgets):
    return "\nbudgets\n" + aligned(budget_rows(budgets))


def tail(data, folder):
    busy = [case["name"] for case in data["cases"] if case["busy"]]
    lines = [f"\n{data['seconds']} s; load {data['load_before']} before, {data['load_after']} after; results in {folder}"]
    if busy:
        lines.append(f"{len(busy)} of {len(data['cases'])} cases: {UPPER_BOUNDS}")
    lines += [f"missing: {name}; {get}" for name, get in data["missing"].items()]
    return "\n".join(lines)


# ---- Markdown -------------------------------------------------------------------------------------------------------


def markdown_table(rows):
    width = max(len(row) for row in rows)
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width, *lines[1:]])


def markdown(data):
    parts = ["# dlio compared with other tools", provenance(data), "## Budgets", markdown_table(budget_rows(data["budgets"]))]
    for case in data["cases"]:
        busy = f"Others took {case['others']} cores; {UPPER_BOUNDS}." if case["busy"] else ""
        shown = common_trouble(case).strip() or markdown_table(table(case))
        parts += [f"## {case['group']}: {case['name']}", f"{case['note']} {busy}".strip(), shown]
    if data["micro"]["rows"]:
        parts += [f"## {micro_title(data['micro'])}", markdown_table(micro_rows(data["micro"]))]
    return "\n\n".join(part for part in parts if part) + "\n"


def provenance(data):
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    busy = sum(case["busy"] for case in data["cases"])
    loaded = f" In {busy} of {len(data['cases'])} cases the host was busy: their numbers are upper limits." if busy else ""
    missing = f" Not installed: {', '.join(data['missing'])}." if data["missing"] else ""
    return f"{machine_line(data['machine'])}; load {data['load_before']} before, {data['load_after']} after. {versions}.{loaded}{missing}"
