#!/usr/bin/env python3
"""Includes documents of the repository in pages of the book, as a preprocessor of mdBook.

    {{#document ../../tracer/TRACING.md}}     in a page: replaced by this document, without a copy in the repository

Links work in both places. A page and a document link to files of the repository, as in any viewer of repositories. In the book, a
link to a document that a page includes becomes a link to that page, and a link to another file becomes plain text.
"""

import json
import os
import re
import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parent
ROOT = BOOK.parent
PAGES = BOOK / "src"
DOCUMENT = re.compile(r"^\{\{#document (\S+)\}\}$", re.M)
ENTRY = re.compile(r"\[[^\]]+\]\(([^)\s]+\.md)\)")
LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`|!\[[^\]]*\]\([^)]*\))*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$|`[^`\n]+`(?!\]\()|(?:(?<=\n\n)|\A)(?: {4}[^\n]*\n?)+", re.M | re.S)


def pages():
    """Returns the pages in the order of SUMMARY.md."""
    return [PAGES / name for name in ENTRY.findall((PAGES / "SUMMARY.md").read_text())]


def documents():
    """Returns {document: the page that includes it}."""
    found = {}
    for page in pages():
        for name in DOCUMENT.findall(page.read_text()):
            found[(page.parent / name).resolve()] = page
    return found


def outside_code(text, change):
    """Applies `change` to the text outside code."""
    parts, at = [], 0
    for code in CODE.finditer(text):
        parts += [change(text[at : code.start()]), code.group()]
        at = code.end()
    return "".join([*parts, change(text[at:])])


def relinked(text, source, page, included):
    """Returns the text of `source` with links that work in `page` of the book."""

    def link(found):
        image, label, target = found.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found.group()
        file = (source.parent / path).resolve()
        if file.is_dir() and (file / "README.md") in included:
            file = file / "README.md"
        file = PAGES / "index.md" if file == PAGES / "SUMMARY.md" else included.get(file, file)
        if not file.is_relative_to(PAGES):
            return "" if image else label
        moved = os.path.relpath(file, page.parent)
        return f"{image}[{label}]({moved}{'#' + anchor if anchor else ''})"

    return outside_code(text, lambda prose: LINK.sub(link, prose))


def expanded(page, included):
    """Returns the text of a page as the book shows it."""
    parts = DOCUMENT.split(page.read_text())
    for at in range(0, len(parts), 2):
        parts[at] = relinked(parts[at], page, page, included)
    for at in range(1, len(parts), 2):
        source = (page.parent / parts[at]).resolve()
        parts[at] = relinked(source.read_text(), source, page, included)
    return "".join(parts)


def fill(items, included):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter["path"]:
                chapter["content"] = expanded(PAGES / chapter["path"], included)
            fill(chapter["sub_items"], included)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    fill(book.get("items") or book["sections"], documents())
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
