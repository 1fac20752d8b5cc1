#!/usr/bin/env python3
"""Tests the book in docs/: its links, and the code blocks of its pages.

    check.py                  check links; run every shell block and query, and compare the printed reports (`make test`)
    check.py PAGE ...         only these pages, by name (first, recipes/slurm); --links: only links
    check.py --update PAGE    write the output of a page's commands and queries into its blocks

Blocks of a page run in order, in a directory of their own, with the built programs in PATH. The classes after a language
select how: `file=NAME` writes the block into the directory; `needs-...` and `interactive` leave it out (see blocks.py) and only check
its syntax and options; `exit=N` expects this exit status; `varies` does not compare the output, and
`verdict` only the first words of a report. In a console block, numbers may differ from those printed now, and `...` represents left-out lines.
A block `text,result` after a query is its result: the names of the columns are compared.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import blocks
import links
import pages

try:
    import yaml
except ImportError:
    yaml = None

DIST = Path(os.environ.get("DLIO_DIST", ROOT / "target/dist"))
BIN = Path(os.environ.get("DLIO_BIN_DIR", DIST / "bin"))
CACHE = Path(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")))
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "dlio-target"))
SECONDS = 60
# Times a page is tried: a verdict depends on the load of the host.
TRIES = 3
# The directory of a page, in printed paths.
SHOWN_AS = "/data/demo"
# The clone, in printed paths.
CLONE_SHOWN_AS = "/data/dlio"
# Files that repeat the version.
VERSIONS = {
    "CITATION.cff": r"^version: (.+)$", "python/pyproject.toml": r'^version = "(.+)"', "python/Cargo.toml": r'\A\[package\]\n.*\nversion = "(.+)"',
    "python/dliotrace/__init__.py": r'^__version__ = "(.+)"', "tracer/include/dliotrace.pc.in": r"^Version: (.+)$",
    "docs/src/recipes/kubernetes.md": r"image: dlio:(\S+)", "docs/src/recipes/containers.md": r"--from=dlio:(\S+)",
}  # fmt: skip


def python_package(scratch):
    """Returns a directory to import dliotrace from, or None if its engine is not built."""
    engine = TARGET / "python/release/libdliotrace_engine.so"
    if not engine.exists():
        return None
    package = scratch / "python/dliotrace"
    shutil.copytree(ROOT / "python/dliotrace", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(engine, package / "_engine.abi3.so")
    (package / "lib").symlink_to(DIST / "lib")
    (package / "bin").symlink_to(BIN)
    return package.parent


def versions():
    """Yields the files whose version is not that of the workspace."""
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    for name, pattern in VERSIONS.items():
        found = re.findall(pattern, (ROOT / name).read_text(), re.M)
        if set(found) != {version}:
            yield f"{name}: version {found} instead of {version}"


class Runner:
    def __init__(self, scratch, update):
        self.scratch, self.update = scratch, update
        self.package = python_package(scratch)
        self.counts, self.errors = Counter(), []
        self.options = {}

    def environment(self, page_dir, block=None):
        name = block and block.environment()
        python = CACHE / blocks.ENVIRONMENTS[name][1] / "bin" if name else Path(sys.executable).parent
        own = {
            "PATH": f"{BIN}:{python}:/usr/bin:/bin", "HOME": str(page_dir.parent), "LC_ALL": "C.UTF-8", "COLUMNS": "80",
            "TMPDIR": str(self.scratch), "PYTHONDONTWRITEBYTECODE": "1", "DLIO_SOURCE": str(ROOT),
        }  # fmt: skip
        return own | ({"PYTHONPATH": str(self.package)} if self.package else {})

    def run(self, block, command, page_dir):
        """Runs a command as bash does; returns what it prints, or None after an error."""
        expected = int(block.value("exit") or 0)
        try:
            ran = subprocess.run(
                ["bash", "-euc", command], cwd=page_dir, env=self.environment(page_dir, block),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return self.error(block, f"still runs after {SECONDS} s: {command}")
        printed = ran.stdout.decode(errors="replace")
        if ran.returncode != expected:
            return self.error(block, f"exit status {ran.returncode} instead of {expected}: {command}\n{printed[-2000:]}")
        return printed

    def error(self, block, what):
        self.errors.append(f"{block}: {what}")

    def skipped(self, block):
        """Returns the reason for not running a block. Such blocks get the checks that need no run."""
        reason, name = block.reason(), block.environment()
        if not reason and name and not (CACHE / blocks.ENVIRONMENTS[name][1] / ".installed").exists():
            reason = f"`{blocks.ENVIRONMENTS[name][0]}` installs the libraries"
        if not reason and "dliotrace" in block.text and block.language in ("sh", "console") and not self.package:
            reason = "needs the engine of the Python package: `make wheel`"
        if reason:
            self.counts[reason] += 1
            self.check_unrun(block)
        return reason

    def check_unrun(self, block):
        text = block.text
        if block.language == "console":
            text = "\n".join(command for command, _ in blocks.commands(text))
        if block.language not in ("sh", "console"):
            return
        syntax = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        if syntax.returncode:
            self.error(block, f"not a valid shell script: {syntax.stderr.strip()}")
        for line in text.replace("\\\n", " ").split("\n"):
            for program, own in re.findall(r"(?:^|[\s;|&(]|bin/)(dlio(?:-analyze)?(?: (?:trace|bench|top|worker|check mlperf))?)((?: (?!-- )[^|;&#]*)?)", line):
                own = own.split(" -- ")[0]
                for option in re.findall(r"(?<= )--[a-z][a-z-]*", own):
                    if option not in self.help(program):
                        self.error(block, f"`{program}` has no option {option}")

    def help(self, program):
        if program not in self.options:
            ran = subprocess.run([*program.split(), "--help"], env=self.environment(self.scratch), capture_output=True, text=True)
            self.options[program] = set(re.findall(r"--[a-z][a-z-]*", ran.stdout))
        return self.options[program]

    def console(self, block, page_dir):
        text = []
        for command, expected in blocks.commands(block.text):
            printed = self.run(block, command, page_dir)
            if printed is None:
                return
            self.counts["commands"] += 1
            printed = printed.replace(str(page_dir), SHOWN_AS).replace(str(page_dir.parent), os.path.dirname(SHOWN_AS))
            printed = printed.replace(str(ROOT), CLONE_SHOWN_AS)
            lines = printed.rstrip("\n").split("\n") if printed.strip() else []
            text += ["$ " + command.replace("\n", "\n> ")]
            if self.update:
                text += blocks.shortened(expected, lines)
            elif "verdict" in block.classes:
                wanted, found = blocks.verdict(expected[0] if expected else ""), blocks.verdict(printed)
                self.counts["outputs"] += wanted is not None
                if wanted and wanted != found:
                    self.error(block, f"{command}: the verdict is {found} instead of {wanted}:\n{printed[:800]}")
            elif expected and "varies" not in block.classes:
                self.counts["outputs"] += 1
                missing = blocks.differs(expected, printed)
                if missing is not None:
                    self.error(block, f"{command}\nexpected, with # for values:\n  {missing}\nprinted:\n  {blocks.masked(lines)}")
        return "\n".join(line.rstrip() for line in text) + "\n"

    def query(self, block, page_dir):
        """Runs a query; returns its result as a table."""
        command = ["dlio-analyze", block.value("trace") or "dlio-trace", "--sql", block.text]
        ran = subprocess.run(command, cwd=page_dir, env=self.environment(page_dir), capture_output=True, text=True)
        self.counts["queries"] += 1
        if ran.returncode or not blocks.columns(ran.stdout):
            self.error(block, f"no rows: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def result(self, block, printed):
        """Compares the columns of a result with those of the query before it; returns the text for the page."""
        expected, found = blocks.columns(block.text), blocks.columns(printed or "")
        self.counts["outputs"] += 1
        if expected != found and not self.update:
            self.error(block, f"the result has the columns {found} instead of {expected}")
        lines = blocks.shortened(block.text.split("\n"), printed.rstrip("\n").split("\n")) if found else []
        return "".join(line.rstrip() + "\n" for line in lines) or None

    def parse_yaml(self, block):
        if yaml is None:
            self.counts["PyYAML is missing: YAML is not parsed"] += 1
            return
        try:
            list(yaml.safe_load_all(block.text))
        except yaml.YAMLError as error:
            self.error(block, f"not valid YAML: {error}")

    def page(self, page):
        """Tests a page; again if an error remains."""
        before, counts = list(self.errors), self.counts.copy()
        for number in range(TRIES):
            self.errors, self.counts = list(before), counts.copy()
            self.try_page(page, number)
            if self.errors == before:
                return

    def try_page(self, page, number):
        text, changed, queried = page.read_text(), [], None
        page_dir = self.scratch / f"{number}" / page.relative_to(pages.PAGES).with_suffix("") / "dir"
        page_dir.mkdir(parents=True)
        for block in blocks.of_page(page, text):
            self.errors += [f"{block}: unknown class {word}" for word in blocks.unknown_classes(block)]
            name = block.value("file")
            if name:
                (page_dir / name).write_text(block.text)
                if name.endswith(".py"):
                    compile(block.text, f"{block}", "exec")
                elif name.endswith(".yaml"):
                    self.parse_yaml(block)
            elif block.language in ("sh", "console", "sql") and not self.skipped(block):
                if block.language == "sh":
                    self.counts["commands"] += 1
                    self.run(block, block.text, page_dir)
                elif block.language == "sql":
                    queried = self.query(block, page_dir)
                else:
                    changed.append((block, self.console(block, page_dir)))
            elif "result" in block.classes:
                changed.append((block, self.result(block, queried)))
            elif block.language == "yaml":
                self.parse_yaml(block)
            elif block.language == "python":
                compile(block.text, f"{block}", "exec")
        if self.update:
            for block, printed in reversed(changed):
                if printed is not None:
                    text = text[: block.start] + printed + text[block.start + len(block.text) :]
            page.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--links", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    count, errors = links.check()
    errors += versions()
    counts = Counter()
    if not options.links:
        if not (DIST / "built").exists():
            sys.exit(f"cannot test the docs: nothing is built in {DIST}; run `make build`")
        with tempfile.TemporaryDirectory(prefix="dlio-docs.") as scratch:
            runner = Runner(Path(scratch), options.update)
            for page in pages.pages():
                if not options.pages or str(page.relative_to(pages.PAGES).with_suffix("")) in options.pages:
                    runner.page(page)
            errors += runner.errors
            counts = runner.counts
    print("\n".join(errors), file=sys.stderr)
    ran = {what: counts.pop(what, 0) for what in ("commands", "queries", "outputs")}
    print(f"docs: {count} links; {ran['commands']} commands and {ran['queries']} queries run, {ran['outputs']} outputs compared")
    for reason, number in sorted(counts.items()):
        print(f"  {number} not run: {blocks.NOT_RUN.get(reason, reason)}")
    print(f"{count + sum(ran.values()) - len(errors)} passed, {len(errors)} failed")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
