"""Tests of plain_english.py: which expressions it marks, in which kind of text, and when it fails."""

import contextlib
import io
import unittest

import plain_english
from plain_english import Mark, Text


def names(words, kind="docs"):
    return [name for _, name, _, _ in plain_english.marks_of(Text(kind, words, [(0, 1)]))]


class Marks(unittest.TestCase):
    def test_each_expression_is_marked(self):
        for words, name in [
            ("Of a process that ends, nothing remains.", "of-first"),
            ("What ranks read is counted.", "what-first"),
            ("It counts what was recorded.", "what-is"),
            ("The file lies in the cache.", "lies"),
            ("A value that is no number fails.", "is-no"),
            ("It writes a file a rank.", "distributive"),
            ("The neighbour is closed.", "british"),
            ("The folder is new.", "folder"),
        ]:
            self.assertIn(name, names(words), words)

    def test_plain_sentences_are_not_marked(self):
        for words in [
            "The tracer writes one file per rank.",
            "What is measured?",
            "Numbers were measured by hand on two hosts.",
            "There is no limit.",
            "`what is told` is code.",
        ]:
            self.assertEqual(names(words), [], words)

    def test_terms_for_users_do_not_apply_to_comments(self):
        self.assertEqual(names("The folder is new.", "comments"), [])

    def test_expressions_cross_the_ends_of_lines(self):
        [text] = plain_english.markdown("It counts what\nwas recorded.")
        self.assertEqual([(name, text.line(at)) for at, name, _, _ in plain_english.marks_of(text)], [("what-is", 1)])


class Kinds(unittest.TestCase):
    def test_rust(self):
        text = (
            "//! Module.\n#[derive(Args)]\nstruct Given {\n    /// Printed by clap\n    /// Second line\n    place: u8,\n}\n"
            '/// Doc.\nfn f() {\n    print("a message of four");\n}\n#[cfg(test)]\nmod tests {\n    const A: &str = "text in a test";\n}\n'
        )
        found = [(text.kind, text.words, text.line(0)) for text in plain_english.rust(text, "a/src/b.rs")]
        self.assertCountEqual(
            found,
            [
                ("messages", "a message of four", 10),
                ("comments", "text in a test", 14),
                ("messages", "Printed by clap Second line", 4),
                ("comments", "Module.", 1),
                ("comments", "Doc.", 8),
            ],
        )

    def test_comments_of_c_do_not_include_directives_and_strings(self):
        source = '/* A test\n * of two lines. */\n//= case: one\nchar *a = "// not this"; // but this\n'
        found = [(text.words, text.line(0)) for text in plain_english.c(source, "a.c")]
        self.assertEqual(found, [("A test of two lines.", 1), ("but this", 4)])

    def test_comments_of_queries_are_messages(self):
        [text] = plain_english.sql("-- Printed with\n-- the query.\nselect '--' from events\n", "a.sql")
        self.assertEqual((text.kind, text.words), ("messages", "Printed with the query."))

    def test_python_and_shell(self):
        kinds = {text.words: text.kind for text in plain_english.python('# why it is\nprint("three words here")\n', "a/b.py")}
        self.assertEqual(kinds, {"why it is": "comments", "three words here": "messages"})
        kinds = {text.words: text.kind for text in plain_english.shell('# why\necho "three words here"\n', "Makefile")}
        self.assertEqual(kinds, {"why": "comments", "three words here": "messages"})


class Ceilings(unittest.TestCase):
    def test_more_marks_than_allowed_fail_and_are_listed(self):
        mark = Mark("no/such/file.md", 3, "docs", "lies", "lies in", "is in")
        ceilings = {"docs": 1, "messages": 0, "comments": 0}
        for marks, status in ([mark], 0), ([mark, mark], 1):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(plain_english.check(marks, dict.fromkeys(plain_english.KINDS, 100), ceilings), status)
            self.assertEqual("no/such/file.md:3: docs: [lies in]" in out.getvalue(), status == 1)


if __name__ == "__main__":
    unittest.main()
