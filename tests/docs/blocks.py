"""Code blocks of the pages: which there are, and how each is tested."""

import re
from dataclasses import dataclass
from pathlib import Path

# Why a block is not run here. Its shell syntax and the options of dlio's programs are still checked.
NOT_RUN = {
    "needs-gpu": "needs a GPU",
    "needs-busybox": "needs a static busybox",
    "needs-slurm": "needs Slurm",
    "needs-hosts": "needs several hosts",
    "needs-mpi": "needs an MPI",
    "needs-kubernetes": "needs Kubernetes",
    "needs-docker": "needs a container engine",
    "needs-store": "needs an object store",
    "needs-logs": "needs Darshan's logs",
    "needs-install": "changes the system; `make test-packages` installs the packages",
    "needs-build": "builds from source",
    "needs-steps": "needs a slow step of a long run",
    "needs-results": "needs results of MLPerf Storage",
    "needs-room": "takes more disk space or time than a test may",
    "interactive": "waits for a person",
}
# Blocks that are run if this target has installed the environment: target, environment in the cache directory.
ENVIRONMENTS = {
    "needs-torch": ("make setup-torch", "dlio-torch-venv"),
    "needs-frameworks": ("make setup-frameworks", "dlio-frameworks-venv"),
}
OPTIONS = ("varies", "verdict", "result")
FENCE = re.compile(r"^```(\S+)\n(.*?)^```$", re.M | re.S)


@dataclass
class Block:
    page: Path
    line: int
    language: str
    classes: list
    text: str
    start: int  # offset of the text in the page

    def value(self, name):
        return next((word.split("=", 1)[1] for word in self.classes if word.startswith(f"{name}=")), None)

    def reason(self):
        """Returns the class that excludes the block from a run."""
        return next((word for word in self.classes if word in NOT_RUN), None)

    def environment(self):
        """Returns the class that selects a Python environment."""
        return next((word for word in self.classes if word in ENVIRONMENTS), None)

    def __str__(self):
        return f"{self.page.name}:{self.line}"


def of_page(page, text):
    for found in FENCE.finditer(text):
        language, *classes = found[1].split(",")
        yield Block(page, text.count("\n", 0, found.start()) + 1, language, classes, found[2], found.start(2))


def unknown_classes(block):
    for word in block.classes:
        if word not in NOT_RUN and word not in OPTIONS and word not in ENVIRONMENTS and "=" not in word:
            yield word


def commands(text):
    """Returns a console block as [(command, output)]: lines after `$ `, continued after `> `, and the rest."""
    result = []
    for line in text.split("\n")[:-1]:
        if line.startswith("$ "):
            result.append([line[2:], []])
        elif line.startswith("> ") and result and not result[-1][1]:
            result[-1][0] += "\n" + line[2:]
        elif result:
            result[-1][1].append(line)
    return result


VERDICT = re.compile(r"^[A-Z][A-Z ,-]+(?=: )")


def verdict(printed):
    """Returns the first words of a report: they do not depend on the load of the host, unlike shares and further causes."""
    found = VERDICT.match(printed)
    return found[0] if found else None


# Values differ between runs; words do not. A bar is as long as its value.
VALUE = re.compile(r"~?(?:\d[\d.,:]*|\d*\.\d+)(?: ?(?:ns|us|µs|ms|s|min|h|d|B|kB|MB|GB|TB|KiB|MiB|GiB|%|x)\b(?!\w)|%)?")


def masked(lines):
    text = re.sub(r"[█▉▊▋▌▍▎▏▐░▒▓▁▂▃▄▅▆▇·-]{2,}", "=", " ".join(lines))
    return re.sub(r"\s+", " ", VALUE.sub("#", text)).strip()


def columns(printed):
    """Returns the column names of a printed table, or None if it has no rows."""
    lines = [line for line in printed.split("\n") if line.strip()]
    return lines[0].split() if len(lines) > 1 else None


def shortened(expected, printed):
    """Returns the printed lines, cut where the page has a line `...` (after 12 lines if it has only that)."""
    if "..." not in expected:
        return printed
    keep = expected.index("...") or 12
    return printed[:keep] + ["..."] * (keep < len(printed))


def differs(expected, printed):
    """Returns the first part of the expected output that was not printed, or None. A line `...` stands for any text."""
    whole, at, part = masked(printed.split("\n")), 0, []
    exact = "..." not in expected
    for line in [*expected, "..."]:
        if line.strip() != "...":
            part.append(line)
            continue
        wanted, part = masked(part), []
        if not wanted:
            continue
        found = whole.find(wanted, at)
        if found < 0 or (exact and wanted != whole):
            return wanted
        at = found + len(wanted)
    return None
