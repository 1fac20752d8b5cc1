#!/usr/bin/env python3
"""Counts expressions that do not read like plain English, in documents, messages and comments.

    plain_english.py             check the counts against the ceilings in plain_english.toml (`make lint`)
    plain_english.py --list RE   list every mark whose file or name matches the regex RE
    plain_english.py --lower     lower the ceilings to the present counts; they never rise
    plain_english.py --files     print the number of marks per file

A mark is a hint: most of them need a rewrite, and a low count does not prove that a text is good.
The three kinds are docs (*.md), messages (string literals, help texts that clap prints, and comments of queries) and comments (also
strings of tests).
"""

import argparse
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path(__file__).with_suffix(".toml")
KINDS = ("docs", "messages", "comments")
SHOWN = 40

PER = (
    "rank|file|section|rule|process|sample|epoch|batch|thread|row|host|worker|machine|format|block|call|event|node|reader|trainer|line|"
    "stage|step|part|split|name|class|layer|second|core|key|run|object|request|member|shard"
)
THING = (
    "file|row|line|span|bit|event|process|socket|connection|column|lane|bar|rule|handle|section|byte|message|piece|reader|table|sample|"
    "box|number|page|test|register|trace|thread|call|scale|folder|list|rank|worker|copy"
)
DONE = (
    "asked|wanted|said|told|given|there|left|meant|read|written|counted|recorded|kept|sent|measured|made|done|called|seen|lost|typed|"
    "stored|going|known|needed"
)

# Marks of every kind of text: name, pattern, advice.
EVERYWHERE = [
    # Sentences that do not start with their subject.
    ("of-first", r"(?:^|[.;] )Of (?!course\b)\w+", "start with the subject: 'For a ..., X'"),
    ("what-first", r"(?:^|[.;] )What (?!would help\b|is\b|are\b|to\b|it\b|do(?:es)?\b|did\b|can\b|happens?\b|follows\b|the numbers\b)\w+\b(?![^.;]{0,160}\?)", "start with a noun"),
    ("where-first", r"(?:^|[.;] )Where (?:there|nothing|nobody|no|it|that|they|one|all|what|neither)\b(?![^.;]{0,160}\?)", "If ..., When ..."),
    ("the-same", r"^The same\b", "say what it does: 'Like [`x`], but ...'"),
    # Clauses in place of nouns.
    ("what-is", r"\bwhat (?:is|was|are|were) (?:not )?(?:" + DONE + r")\b", "name the thing: 'the recorded events'"),
    ("by-what", r"\b(?:by|with|of|from|to|for|on|against|in|behind|beside) what (?:it|they|is|are|was|were|ranks|an?|the|others|each|all|training|readers|programs?|lies|stands|comes|goes|follows|we|has|had)\b", "name the thing"),
    ("of-which", r"(?<!most )(?<!some )(?<!all )(?<!one )(?<!both )(?<!each )(?<!many )(?<!two )(?<!half )(?<!none )\bof (?:which|whose|whom)\b", "whose, with; or two sentences"),
    ("whoever", r"\bwho(?:m|se)?ever\b|\bwho ask(?:s|ed)\b", "the caller, the reader: name it"),
    ("nobody", r"\b(?:nobody|somebody)\b", "a passive, or the actor"),
    ("one-before", r"\bthe one (?:before|behind)\b", "the previous, the next"),
    ("so-many", r"\bso (?:many|much)\b(?! (?:that|more|faster|less|larger|longer)\b)", "that many, N"),
    # Negated nouns.
    ("is-none", r"\bwhere (?:there )?(?:is|are) none\b|\b(?:that|which|one that|what) (?:is|are) none\b", "is not one; if there are none"),
    ("is-no", r"(?<!there )(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|fewer\b|better\b|worse\b|larger\b|smaller\b|slower\b|faster\b|different\b|such\b|one\b|way\b|need\b|doubt\b|later\b|further\b)[a-z]+\b", "is not a"),
    ("is-there", r"\b(?:that|which|it|they|what|ones?|files?|folders?|data|bucket|place|programs?) (?:is|are|was|were) (?:not |still |already )?there\b(?! (?:is|are|was|were|an?|no)\b)", "exists, is missing"),
    ("not-one", r"\bnot one (?:byte|event|could|was)\b", "none, not a single"),
    ("but-for", r"\b(?:but|save) for\b", "except"),
    ("but-one", r"\b(?:is|are|was) but\b|\bneeds? but\b|\bthere is but\b", "only"),
    # Everyday verbs in place of terms.
    ("is-said", r"\b(?:is|are|was|were|be) (?:said|told)\b(?! to\b)", "reported, printed, passed to"),
    ("tells-of", r"\b(?:tells?|told|speaks?|spoken) of\b", "shows, records, mentions"),
    ("nothing-tells", r"\b(?:nothing|no \w+|none|where it|spans?) (?:tells?|says?)\b(?! (?:the|which|whether|how|you|us)\b)", "unknown; not recorded; X shows"),
    ("told-from", r"\btold from\b|\b(?:tell|told|known) (?:it|them) by\b", "distinguished from, recognized by"),
    ("asks-for", r"(?<!all that )(?<!if it )\b(?:is|are|was|were) asked (?:for|about|of)\b|\bask(?:s|ed)? (?:about|after) (?:it|them|files?|nothing)\b", "requested, queried"),
    ("held-against", r"\bh(?:eld|olds?|olding) (?:[\w']+ ){0,5}?against\b", "compared with, checked against"),
    ("lies", r"\bl(?:ies?|ay) (?:in|on|there|beside|behind|among|where|apart|together|below|unpacked)\b", "is in, is stored in"),
    ("stands", r"\b(?:stands?|stood) (?!for\b|in for\b|out\b|alone\b|still\b|by\b|up\b)(?:in|there|here|beside|with|before|at|behind|first|last|apart|above|below|between|next|open|on|once|around|side)\b", "is, appears, is listed"),
    ("goes-by", r"\b(?:goes?|going|went|gone) by\b(?! \w+ing\b)", "passes, elapses"),
    ("went-away", r"\b(?:goes?|went|gone) away\b", "disconnects, is removed"),
    ("comes-to", r"\b(?:comes?|came) to (?:nothing|it|them|its|an?|the|what|\d+|as|so|more|another)\b", "reaches, is, fails"),
    ("became-of", r"\b(?:became|comes?|came|become) of\b", "the outcome of"),
    ("hand-on", r"(?<!by )\bhand(?:s|ed|ing)?(?: \w+){0,3} (?:on|over)\b", "pass on, forward, deliver"),
    ("taken-for", r"\b(?:takes?|taken|took) (?:\w+ ){0,3}for (?!the\b|all\b|each\b|every\b)(?:one|an?|granted|what|its|it|them|another|zero|samples?|bytes|absent)\b", "treated as, mistaken for"),
    ("win", r"\b(?:can|could|may|would|will) (?:be won|win)\b|\bw(?:in|ins|on) (?:nothing|something|anywhere|by)\b", "save, gain"),
    ("room", r"\b(?:finds?|found|for want of|has|had|have|is|was|are|there (?:is|was)) (?:no |some )?room\b|\broom (?:for|of) (?:it|them|all|one)\b", "does not fit; no space left"),
    ("did-little", r"\b(?:did|does|do) (?:but )?little\b", "short-lived, small"),
    # Adverbs and connectors.
    ("beside", r"\b(?:compute|computed|computes|nothing|anything|any|stands?|work|writes?|written) beside\b|\bbeside (?:compute|that|each|others?|what|which|calls|neither|both|reads|the|it|its|them)\b", "during, next to, in addition to"),
    ("behind", r"\bbehind (?:it|them|that|which|its|their|this|both|the (?:end|facts|blocks|header|last|first|one|object|number|planes|place|rows?|window|text))\b", "after, following"),
    ("past", r"\bpast (?:files|all|the C library|io_getevents|every|its functions|the library|the page cache|calls|exported)\b", "bypassing, not on"),
    ("apart", r"\b(?:counted|kept|stands?|lies?|shown|judged) apart\b", "separately"),
    ("in-place-of", r"\bin the place of\b|\bin (?:its|their) place\b", "instead of, instead"),
    ("in-the-mean", r"\bin the (?:mean|median)\b(?! (?:time|of)\b)", "on average; median ..."),
    ("one-behind", r"\bone (?:behind|beside) (?:the other|another)\b", "one after another, side by side"),
    ("of-ours", r"\bof (?:ours|one's own|our own)\b|\b(?:by|under|under a|to) (?:\w+ )?of (?:its|their) own\b", "our own, its own, separate"),
    ("for-good", r"\bfor good\b", "permanently"),
    ("way-to", r"\b(?:on|off|in) the way of\b|\bthe way to (?:it|them|both|the|its|their)\b|\bby way of\b", "on the path of; access to; via"),
    ("on-from", r"\bfrom (?:\d+|five|six|ten)(?: %| MiB| MB)? on\b|\bfrom (?:which|here|there|it) on\b|\bup to which\b", "N or more; at which"),
    ("moment", r"\b(?:at this|in one|in the|in this|at that) moment\b", "now, atomically, then"),
    ("otherwise-than", r"\b(?:spelt|called|made|packed) otherwise\b|\b(?:otherwise|elsewhere) than\b", "differently from, anywhere but"),
    ("archaic", r"\b(?:in vain|seldom|lately|anew|mend(?:s|ed|ing)?|foresee|farewell|twice over|many times over)\b|\bmeanwhile\b(?!,)", "without success, rarely, recently, again, fix"),
    # Nouns.
    ("distributive", r"\b(?:an?|one) (?:" + THING + r") (?:an?) (?:" + PER + r")\b|\b(?:bytes|ns|nanoseconds|us|CPU|connection|events|instructions) an? (?:event|call|sample|request|second|file)\b", "one X per Y"),
    ("remark", r"\bremarks?\b", "note, warning"),
    ("kin", r"\b(?:its|their|and|of) kin\b", "and similar"),
    ("affair", r"\baffairs?\b|\b(?:is|are) (?:the|its|nobody's) (?:\w+'s )?business\b", "responsibility; up to"),
    ("he", r"(?<!/)\b(?:he|himself|his)\b", "it, its"),
    ("british", r"\b\w*(?:recognis|summaris|synchronis|normalis|optimis|initialis|serialis|organis|minimis|neighbour|behaviour|colour|favour|catalogue|honour)\w*\b", "American spelling"),
]

# Marks of texts that users read only: the terms of the field are settled there.
FOR_USERS = [
    ("folder", r"\bfolders?\b", "directory"),
    ("says", r"\b(?:[Ss]ays|[Tt]ells|told|[Aa]sks|speaks|talks)\b", "reports, shows, requests"),
    ("typed", r"\b(?:is|was|were|are|be) typed\b|\btyped (?:over|wrong)\b", "given on the command line"),
    ("refused", r"\b(?:is|are) refused\b", "is rejected"),
    ("at-its-end", r"\b(?:came|come|comes) to (?:its|their|an) end\b", "ended"),
    ("as-it-is", r"\bas (?:it is|they are)\b(?! \w+ed\b)", "unchanged"),
    ("more", r"\bany more\b", "no longer"),
]


@dataclass
class Text:
    """A paragraph, comment or string, and the lines it comes from."""

    kind: str
    words: str
    starts: list  # (offset in words, line number)

    def line(self, at):
        return max(number for start, number in self.starts if start <= at)


@dataclass
class Mark:
    path: str
    line: int
    kind: str
    name: str
    found: str
    advice: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.kind}: [{self.found}] {self.name}: {self.advice}"


def compiled(rules):
    return [(name, re.compile(pattern), advice) for name, pattern, advice in rules]


RULES = {kind: compiled(EVERYWHERE + ([] if kind == "comments" else FOR_USERS)) for kind in KINDS}
# Names of code, placeholders and addresses are not prose.
NOT_PROSE = re.compile(r"\w+\.\w+\.\w[\w.]*|`[^`\n]*`|\]\([^)\s]*\)|<[^>\n]{1,80}>|\{[^{}\n]{0,60}\}|https?://\S+|\$\{?\w+")


def joined(kind, lines):
    """Joins adjacent lines into paragraphs, so that an expression can cross the end of a line."""
    words, starts, last = "", [], None
    for number, line in lines:
        line = line.strip()
        if words and (not line or number != last + 1):
            yield Text(kind, words, starts)
            words, starts = "", []
        if line:
            words += " " if words else ""
            starts.append((len(words), number))
            words += line
        last = number
    if words:
        yield Text(kind, words, starts)


def without_fences(lines):
    """Blanks code blocks."""
    inside = False
    for number, line in lines:
        fence = line.strip().startswith("```")
        inside ^= fence
        yield number, "" if inside or fence else line


def markdown(text):
    lines = []
    for number, line in without_fences(enumerate(text.split("\n"), 1)):
        if re.match(r"\s*[*-] ", line):
            lines.append((number - 0.5, ""))
        lines.append((number, re.sub(r"^[\s>*#|-]+", "", line)))
    yield from joined("docs", ((int(number + 0.5), line) for number, line in lines))


RUST = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|b?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)|[bc]?"(?P<string>(?:[^"\\]|\\.)*)"|"""
    r"""b?'(?:[^'\\\n]|\\(?:x..|u\{[^}]*\}|.))'""",
    re.S | re.X,
)
# Items whose doc comments clap prints as help.
HELP = re.compile(r"^#\[derive\([^)]*\b(?:Parser|Args|Subcommand|ValueEnum)\b[^)]*\)\](?:.|\n)*?^\}", re.M)
UNIT_TESTS = re.compile(r"^#\[cfg\((?:all\()?test\b.*?^(?:mod|pub mod) ", re.M | re.S)


def rust(text, path):
    tests = len(text)
    if in_tests(path):
        tests = 0
    elif unit_tests := UNIT_TESTS.search(text):
        tests = unit_tests.start()
    helps = [found.span() for found in HELP.finditer(text)]
    comments, doc = [], []
    for found in RUST.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        if comment := found["comment"]:
            printed = comment.startswith("///") and any(start < found.start() < end for start, end in helps)
            content = re.sub(r"^\s*[*-] ", "", re.sub(r"^/[/*][/!]?", "", comment))
            (doc if printed else comments).append((number, content))
        elif (string := found["string"] or found["raw"]) and len(string.split()) > 2:
            words = re.sub(r"\\\n\s*|\\n|\n", " ", string)
            yield Text("messages" if found.start() < tests else "comments", words, [(0, number)])
    yield from joined("messages", doc)
    yield from joined("comments", without_fences(comments))


def python(text, path):
    kind = "comments" if in_tests(path) else "messages"
    comments = []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return
    for token in tokens:
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string.lstrip("#!")))
        elif token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
            content = re.sub(r"^[rbfuRBFU]*['\"]+|['\"]+$", "", token.string)
            lines = enumerate(content.split("\n"), token.start[0])
            yield from joined(kind, ((number, line) for number, line in lines if len(line.split()) > 2))
    yield from joined("comments", comments)


def shell(text, _):
    """Comments, and the texts that `echo` prints."""
    lines = list(enumerate(text.split("\n"), 1))
    yield from joined("comments", ((number, line.strip()[1:] if line.lstrip().startswith("#") else "") for number, line in lines))
    for number, line in lines:
        for printed in re.findall(r'echo "([^"]+)"', line):
            if len(printed.split()) > 2:
                yield Text("messages", printed, [(0, number)])


C = re.compile(r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""", re.S)


def c(text, _):
    """Comments, except directives of tests."""
    lines = []
    for found in C.finditer(text):
        if found["comment"] and not found["comment"].startswith("//="):
            number = text.count("\n", 0, found.start()) + 1
            for at, line in enumerate(found["comment"].split("\n")):
                lines.append((number + at, re.sub(r"^\s*(?:/[/*]+|\*/?)|\*/$", "", line)))
    yield from joined("comments", lines)


def toml(text, _):
    """Comments."""
    lines = enumerate(text.split("\n"), 1)
    yield from joined("comments", ((number, line.strip()[1:] if line.lstrip().startswith("#") else "") for number, line in lines))


def sql(text, _):
    """Comments, which `--show-sql` prints."""
    lines = enumerate(text.split("\n"), 1)
    yield from joined("messages", ((number, line.strip()[2:] if line.lstrip().startswith("--") else "") for number, line in lines))


def in_tests(path):
    return bool(re.search(r"(?:^|/)tests?/|(?:^|/)test_\w+\.py$|_tests?\.(?:rs|py)$", path))


def texts(path):
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    match Path(path).suffix:
        case ".md":
            return markdown(text)
        case ".rs":
            return rust(text, path)
        case ".py":
            return python(text, path)
        case ".sql":
            return sql(text, path)
        case ".c" | ".h" | ".cpp":
            return c(text, path)
        case ".toml":
            return toml(text, path)
        case _:
            return shell(text, path)


def marks_of(text):
    """Yields (offset, name, found expression, advice)."""
    prose = NOT_PROSE.sub(lambda found: "x" * len(found.group()), text.words)
    for name, pattern, advice in RULES[text.kind]:
        for found in pattern.finditer(prose):
            expression = found.group().lstrip(" .;:,(")
            yield found.end() - len(expression), name, expression.strip(), advice


def sources():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    own = Path(__file__).name
    for path in sorted(listed):
        read = path.endswith((".md", ".rs", ".py", ".sh", ".sql", ".c", ".h", ".cpp", ".toml")) or Path(path).name == "Makefile"
        if read and Path(path).name not in (own, f"test_{own}") and (ROOT / path).is_file():
            yield path


def survey():
    """Returns the marks, and the number of words by kind."""
    marks, words = [], Counter()
    for path in sources():
        for text in texts(path):
            words[text.kind] += len(text.words.split())
            marks += [Mark(path, text.line(at), text.kind, name, found, advice) for at, name, found, advice in marks_of(text)]
    return marks, words


def changed():
    """Returns the files that differ from the last commit, or that it changed."""
    names = subprocess.run(["git", "diff", "--name-only", "HEAD~1"], cwd=ROOT, capture_output=True).stdout.decode()
    return set(names.split("\n"))


def check(marks, words, ceilings):
    counts = Counter(mark.kind for mark in marks)
    failed = False
    for kind in KINDS:
        rate = 1000 * counts[kind] / max(words[kind], 1)
        over = counts[kind] > ceilings[kind]
        print(f"{kind}: {counts[kind]} marks, at most {ceilings[kind]}; {rate:.1f} per 1,000 words" + (" TOO MANY" if over else ""))
        if over:
            failed = True
            recent, of_kind = changed(), [mark for mark in marks if mark.kind == kind]
            shown = [mark for mark in of_kind if mark.path in recent] or of_kind
            print("\n".join(f"  {mark}" for mark in shown[:SHOWN]))
            if len(shown) > SHOWN:
                print(f"  ... and {len(shown) - SHOWN} more: tests/plain_english.py --list .")
    if failed:
        print("rewrite these sentences; CONTRIBUTING.md has the rules")
    return 1 if failed else 0


def lower(marks, ceilings):
    counts = Counter(mark.kind for mark in marks)
    head = CEILINGS.read_text().split("[ceilings]")[0]
    rows = [f"{kind} = {min(counts[kind], ceilings[kind])}\n" for kind in KINDS]
    CEILINGS.write_text(head + "[ceilings]\n" + "".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="RE", type=re.compile, help="list marks whose file or name matches this regex")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to the present counts")
    parser.add_argument("--files", action="store_true", help="print the number of marks per file and kind")
    options = parser.parse_args()
    ceilings = tomllib.loads(CEILINGS.read_text())["ceilings"]
    marks, words = survey()
    if options.list:
        print("\n".join(str(mark) for mark in marks if options.list.search(mark.path) or options.list.search(mark.name)))
    elif options.files:
        for (path, kind), number in Counter((mark.path, mark.kind) for mark in marks).most_common():
            print(f"{number:6} {kind:8} {path}")
    elif options.lower:
        lower(marks, ceilings)
    else:
        return check(marks, words, ceilings)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        sys.exit(0)
