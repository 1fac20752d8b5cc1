"""Tests names and arguments with control characters: ``hostile.py PROGRAMS SAMPLES``, two directories. None may reach the terminal.

The output contains letters, line ends and the colors that the programs use themselves. The shell's line editor also moves
the cursor.
"""

import json
import os
import pty
import random
import re
import select
import sys
import tempfile
import unicodedata

EVIL = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\u2066\u200b\u200f\u2060\ufeff\u00ad\u2028\u3164\U000e0041\ufe0f"
SQL = ["select * from events", "select * from files", "select * from processes", f"select '{EVIL}' as \"{EVIL}\""]


# Longer than any program takes unless it hangs.
PATIENCE = 120

# The end of the line editor's output when it waits for a line.
PROMPT = b"sql> \r\x1b[5C\x1b[?2026l"

# Colors; and, when a terminal is queried or the line editor works, its cursor, its erasing and its modes.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
EDITOR = re.compile(r"\x1b\[(\d*[ABCDGHJK]|\?\d+[hl]|6n)|\r")


def shown(command, typed, folder):
    """Returns all output of a program on its own terminal; a line is typed at each prompt."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(command[0], command, {"TERM": "xterm", "PATH": os.environ["PATH"], "HOME": folder, "NO_COLOR": "1"})
    data, typed = b"", list(typed)
    while True:
        if not select.select([fd], [], [], PATIENCE)[0]:
            sys.exit(f"{command!r} waits for more than is typed; on the terminal stands {data!r}")
        try:
            read = os.read(fd, 65536)
        except OSError:
            break
        if not read:
            break
        data += read
        if typed and data.endswith(PROMPT):
            os.write(fd, typed.pop(0))
    os.waitpid(pid, 0)
    os.close(fd)
    return data.decode(errors="replace")


def obeyed(text, allowed):
    """Returns the characters of a text that control a terminal, or that are invisible."""
    for sequence in allowed:
        text = sequence.sub("", text)
    hidden = set("\u3164\ufe0f")
    return sorted({c for c in text if c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Co") or c in hidden)})


def json_trace():
    """Events of hostile processes, threads, files, spans, categories, arguments, counters and hosts."""
    events = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "p" + EVIL}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "t" + EVIL}},
    ]
    for i in range(50):
        args = {"fname": f"/data/{i}{EVIL}", "size": 4096, "ret": 4096, "k" + EVIL: "v" + EVIL, "hostname": "h" + EVIL}
        event = {"name": "read", "cat": "POSIX", "ph": "X", "pid": 1, "tid": 1, "ts": i * 100, "dur": 50, "args": args}
        counter = {"name": "c" + EVIL, "ph": "C", "pid": 1, "ts": i * 100, "args": {"v" + EVIL: i}}
        events += [event, event | {"name": "s" + EVIL, "cat": "c" + EVIL}, counter]
    return json.dumps({"traceEvents": events}, ensure_ascii=False)


def mutated(sample, seed):
    """Returns the start of another tool's output, with hostile characters in it."""
    with open(sample, "rb") as file:
        lines = file.read(20_000).decode(errors="replace").splitlines(keepends=True)
    chosen = random.Random(seed)
    for _ in range(30):
        at = chosen.randrange(len(lines))
        words = re.split(r"(\W+)", lines[at])
        place = chosen.randrange(len(words))
        words[place] += EVIL
        lines[at] = "".join(words)
    return "".join(lines)


def forms_of_analyze(program, folder, samples):
    """Yields the arguments to pass, and the keys to type in the shell."""
    trace, there = f"{folder}/there", f"{folder}/there/t{EVIL}.json"
    os.mkdir(trace)
    with open(there, "w") as file:
        file.write(json_trace())
    with open(f"{trace}/cut{EVIL}.json", "w") as file:
        file.write(json_trace()[:-700])
    whole = ["--no-cache", "--no-progress"]
    formats = ["text", "csv", "json", "ndjson", "markdown"]
    forms = [[], ["--full"], ["--findings"], ["--format", "csv"], ["--format", "json"], ["--compare", there]]
    forms += [["--section", name] for name in ("heat", "damage", "files", "processes", "functions", "spans", "directories")]
    forms += [["--sql", sql, "--format", name] for sql in SQL for name in formats]
    forms += [["--explain", EVIL[1:]], ["--section", EVIL], ["--show-sql", EVIL], ["--x" + EVIL], ["--sql", EVIL]]
    forms += [["-o", f"{folder}/none/{EVIL}"], ["--format", "chrome", "-o", f"{folder}/out{EVIL}"], ["--workers", EVIL]]
    for form in forms:
        yield [program, trace, *whole, *form], ()
    yield [program, f"{folder}/none{EVIL}"], ()
    yield [program, there, "--no-progress"], ()
    yield [program, trace, *whole, "--shell"], [f"{line}\r".encode() for line in [*(f"{sql};" for sql in SQL[:3]), "select * from none;", "quit"]]
    for name in sorted(os.listdir(samples)):
        if not name.endswith((".txt", ".pfw", ".json", ".csv")):
            continue
        for seed in range(2):
            made = f"{folder}/{seed}-{name}"
            with open(made, "w") as file:
                file.write(mutated(f"{samples}/{name}", seed))
            yield [program, made, *whole, "--full"], ()


def forms_of_dlio(program, folder):
    for words in (
        [EVIL], ["--" + EVIL], ["bench", EVIL], ["bench", "workload=" + EVIL], ["bench", "workload=default", "++" + EVIL + "=1"],
        ["bench", "workload=default", "++workload.reader.data_loader=" + EVIL], ["bench", "report", "/none/" + EVIL],
        ["bench", "workload=default", "++workload.dataset.data_folder=/none/" + EVIL, "++workload.workflow.generate_data=false"],
        ["bench", "--config-dir", "/none/" + EVIL, "workload=default"], ["check", "mlperf", "/none/" + EVIL],
        ["workloads", "show", EVIL], ["trace", "--", "/none/" + EVIL], ["trace", "-o", "/dev/null/" + EVIL, "--", "true"],
        ["trace", "--x" + EVIL], ["completions", EVIL], ["man", "/dev/null/" + EVIL], ["analyze", "/none/" + EVIL],
        ["trace", "-o", f"{folder}/out{EVIL}", "--", "true"], ["top", "--once", "/none/" + EVIL],
    ):
        yield [program, *words], ()


def forms_of_top(program, folder):
    for words in (["--x" + EVIL], ["--once", "/none/" + EVIL], ["--format", EVIL]):
        yield [program, *words], ()


def main(programs, samples):
    with tempfile.TemporaryDirectory() as folder:
        forms = [
            *forms_of_analyze(f"{programs}/dlio-analyze", folder, samples),
            *forms_of_dlio(f"{programs}/dlio", folder),
            *forms_of_top(f"{programs}/dlio-top", folder),
        ]
        failed = []
        for words, typed in forms:
            text = shown(words, typed, folder).replace("\r\n", "\n")
            found = obeyed(text, [COLOURS, EDITOR] if typed else [COLOURS])
            if found or not text and "-o" not in words and words[-1] != "true":
                failed.append(f"{words!r} shows {found or 'nothing'!r}" + (f": {text!r}" if os.environ.get("SHOW") else ""))
        if failed:
            sys.exit("\n".join([f"{len(failed)} of {len(forms)} forms", *failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])
