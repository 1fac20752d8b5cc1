"""Names and arguments that a terminal would obey: ``hostile.py PROGRAM``. None of their characters may arrive."""

import json
import os
import pty
import sys
import tempfile

EVIL = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\u2066\u200b\u200f\u2060\ufeff\u00ad\u2028\u3164\U000e0041\ufe0f"
SQL = ["select * from events", "select * from files", "select * from processes", f"select '{EVIL}' as \"{EVIL}\""]


def shown(command):
    """All that a program writes to a terminal of its own."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(command[0], command, {"TERM": "xterm", "PATH": os.environ["PATH"], "HOME": os.environ["HOME"]})
    data = b""
    while True:
        try:
            read = os.read(fd, 65536)
        except OSError:
            break
        if not read:
            break
        data += read
    os.waitpid(pid, 0)
    os.close(fd)
    return data.decode(errors="replace")


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/t{EVIL}.json"
        events = [
            {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "p" + EVIL}},
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "t" + EVIL}},
        ]
        for i in range(50):
            args = {"fname": f"/data/{i}{EVIL}", "size": 4096, "ret": 4096, "k" + EVIL: "v" + EVIL}
            event = {"name": "read", "cat": "POSIX", "ph": "X", "pid": 1, "tid": 1, "ts": i * 100, "dur": 50, "args": args}
            events.append(event)
            events.append(event | {"name": "s" + EVIL, "cat": "c" + EVIL})
        with open(trace, "w") as file:
            json.dump({"traceEvents": events}, file, ensure_ascii=False)
        with open(f"{folder}/cut{EVIL}.json", "w") as file:
            file.write(json.dumps({"traceEvents": events}, ensure_ascii=False)[:-700])
        forms = [[], ["--full"], ["--findings"], ["--format", "csv"], ["--format", "json"], ["--compare", folder]]
        sections = ["heat", "damage", "files", "processes", "functions", "spans", "directories"]
        forms += [["--section", section] for section in sections]
        formats = ["text", "csv", "json", "ndjson", "markdown"]
        forms += [["--sql", sql, "--format", name] for sql in SQL for name in formats]
        forms += [["--explain", EVIL[1:]], ["--section", EVIL], ["--show-sql", EVIL], ["--x" + EVIL], ["--sql", EVIL]]
        typed = [[folder, "--no-cache", "--no-progress", *form] for form in forms] + [[f"{folder}/none{EVIL}"], [trace, "--no-progress"]]
        failed = []
        for words in typed:
            text = shown([program, *words]).replace("\r\n", "\n")
            found = sorted(set(text) & set(EVIL) - set("]0;owned[2J31m"))
            if found or not text:
                failed.append(f"{words!r} shows {found or 'nothing'!r}")
        if failed:
            sys.exit("\n".join([f"{len(failed)} of {len(typed)} forms", *failed]))


if __name__ == "__main__":
    main(*sys.argv[1:])
