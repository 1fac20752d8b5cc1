"""Links of the documents in the repository, and of the pages of the book."""

import re
import subprocess
from functools import cache
from pathlib import Path

import pages

HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
FENCE = re.compile(r"^\s*(```+|~~~+)")


def slug(heading):
    """Returns the anchor of a heading, as mdBook and viewers of repositories make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", text.strip().lower()))


def anchors(text):
    found, inside = [], False
    for line in text.split("\n"):
        inside ^= bool(FENCE.match(line))
        heading = None if inside else HEADING.match(line)
        if heading:
            name = slug(heading[1])
            found.append(f"{name}-{found.count(name)}" if name in found else name)
    return set(found) | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@cache
def anchors_of(path):
    text = path.read_text()
    return anchors(pages.DOCUMENT.sub(lambda found: (path.parent / found[1]).resolve().read_text(), text))


def targets(text):
    """Yields the target of each link outside code."""
    seen = []
    pages.outside_code(text, lambda prose: seen.extend(found[3] for found in pages.LINK.finditer(prose)) or prose)
    return seen


def broken(text, path, anchors_at):
    """Yields the links of a text that lead nowhere; `anchors_at` returns the anchors of a Markdown file, or None."""
    for target in targets(text):
        if target.startswith(("https://", "mailto:")):
            continue
        if re.match(r"[a-z]+:", target):
            yield target, "use https"
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield target, "does not exist"
        elif anchor and file.suffix == ".md" and anchor not in anchors_at(file):
            yield target, f"there is no heading for #{anchor}"


def of_repository():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=pages.ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in sorted(filter(None, listed.split("\0"))):
        path = pages.ROOT / name
        if path.is_file():
            text = path.read_text()
            yield path, text, anchors_of


def of_book():
    included, listed = pages.documents(), pages.pages()
    text_of = {page: pages.expanded(page, included) for page in listed}
    for page, text in text_of.items():
        yield page, text, lambda file: anchors(text_of[file]) if file in text_of else set()


def check():
    """Returns the number of links, and a list of errors."""
    count, errors = 0, []
    for path, text, anchors_at in [*of_repository(), *of_book()]:
        count += len(targets(text))
        name = path.relative_to(pages.ROOT)
        errors += [f"{name}: {target}: {why}" for target, why in broken(text, path, anchors_at)]
    written = set(pages.PAGES.rglob("*.md")) - {pages.PAGES / "SUMMARY.md"}
    for path in sorted(written ^ set(pages.pages())):
        what = "is missing" if path not in written else "is not in SUMMARY.md"
        errors.append(f"{path.relative_to(pages.ROOT)}: {what}")
    return count, list(dict.fromkeys(errors))
