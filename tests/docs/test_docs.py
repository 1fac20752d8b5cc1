#!/usr/bin/env python3
"""Tests the checks of the book: what they find, and what they accept."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "docs"))

import blocks
import links
import pages

PAGE = """# A page
```console,verdict
$ dlio trace -- sh \\
>   -c true
dlio: 1 process
$ ls
```
```sh,needs-gpu,exit=1
x
```
"""


class Links(unittest.TestCase):
    def broken(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(text)
            return [target for target, _ in links.broken(text, path, links.anchors_of)]

    def test_missing_files_and_headings_are_found(self):
        self.assertEqual(self.broken("[a](other.md) [b](#none) [c](#a-heading-b)\n\n# A *heading* `b`\n"), ["other.md", "#none"])

    def test_code_contains_no_links(self):
        self.assertEqual(self.broken("```\n[a](x.md)\n```\n`[b](y.md)`\n\n    [c](z.md)\n"), [])

    def test_text_after_an_indented_block_contains_links(self):
        self.assertEqual(self.broken("a\n\n    [c](z.md)\n\n[d](y.md)\n"), ["y.md"])

    def test_links_to_the_list_of_pages_lead_to_the_first(self):
        text = pages.relinked("[book](docs/src/SUMMARY.md)", pages.ROOT / "CHANGELOG.md", pages.PAGES / "changelog.md", {})
        self.assertEqual(text, "[book](index.md)")

    def test_plain_http_is_found(self):
        self.assertEqual(self.broken("[a](http://example.org) [b](https://example.org)"), ["http://example.org"])

    def test_links_of_an_included_document_lead_to_pages(self):
        findings = pages.PAGES / "findings.md"
        text = pages.expanded(findings, pages.documents())
        self.assertIn("(report-json.md)", text)
        self.assertNotIn("(SUMMARY.md)", text)

    def test_every_page_of_a_document_expands_to_it(self):
        for document, page in pages.documents().items():
            self.assertGreater(len(pages.expanded(page, pages.documents())), 0.8 * document.stat().st_size)


class Blocks(unittest.TestCase):
    def test_commands_and_outputs_are_separated(self):
        first, second = blocks.of_page(Path("page.md"), PAGE)
        self.assertEqual(blocks.commands(first.text), [["dlio trace -- sh \\\n  -c true", ["dlio: 1 process"]], ["ls", []]])
        self.assertEqual((second.line, second.reason(), second.value("exit")), (8, "needs-gpu", "1"))

    def test_other_numbers_are_no_difference(self):
        self.assertIsNone(blocks.differs(["took 1.2 s (5 %)"], "took 312 ms\n  (71 %)\n"))

    def test_other_words_are_a_difference(self):
        self.assertEqual(blocks.differs(["took 1.2 s"], "lasted 1.2 s"), "took #")

    def test_further_output_is_a_difference_without_dots(self):
        self.assertIsNotNone(blocks.differs(["a"], "a b"))
        self.assertIsNone(blocks.differs(["a", "...", "d"], "a b c d"))
        self.assertIsNotNone(blocks.differs(["c", "...", "a"], "a b c"))

    def test_columns_are_those_of_a_table_with_rows(self):
        self.assertEqual(blocks.columns("  name  n\n  read  2\n"), ["name", "n"])
        self.assertIsNone(blocks.columns("  name  n\n"))

    def test_long_output_is_shortened_where_the_page_is(self):
        self.assertEqual(blocks.shortened(["a", "..."], ["x", "y"]), ["x", "..."])
        self.assertEqual(blocks.shortened(["a", "..."], ["x"]), ["x"])
        self.assertEqual(blocks.shortened(["a"], ["x", "y"]), ["x", "y"])

    def test_verdict_is_the_first_words(self):
        self.assertEqual(blocks.verdict("SLEEP-BOUND: 76 % of training"), "SLEEP-BOUND")
        self.assertIsNone(blocks.verdict("Findings: none"))


if __name__ == "__main__":
    unittest.main()
