"""Ctrl-C in the shell of dlio-analyze, typed at a terminal: ``interrupt.py PROGRAM TRACE``.

Nothing here sleeps: the terminal's output and the threads of the process show when to continue.
"""

import os
import pty
import select
import signal
import sys
import time

PATIENCE = 120

# The line editor's output when it has accepted a line and the keys have their usual meaning again.
TAKEN = "\x1b[?2004l"

# Neither ends within an hour: the first makes batches all the time, the second makes none.
BUSY = "select count(*) from generate_series(1, 5000000) a, generate_series(1, 5000000) b;"
SILENT = "select count(*) from generate_series(1, 5000000) a(x), generate_series(1, 5000000) b(y) where x + y < 0;"


class Terminal:
    """A program on its own terminal, and its output."""

    def __init__(self, command, environment):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment)

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, text):
        """Reads until the text has been shown, and discards the output before it."""
        end = time.monotonic() + PATIENCE
        while text not in self.shown:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                sys.exit(f"{text!r} did not appear; the terminal shows {self.shown!r}")
            try:
                self.shown += os.read(self.fd, 4096).decode(errors="replace")
            except OSError:
                sys.exit(f"the program ended before {text!r}; on the terminal stands {self.shown!r}")
        before, self.shown = self.shown.split(text, 1)
        return before

    def querying(self):
        """Returns the CPU time of each thread that works on a query."""
        times = []
        for task in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{task}/stat") as file:
                    name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            except FileNotFoundError:
                continue
            if name == "query":
                times.append(sum(map(int, rest.split()[11:13])))
        return times

    def until(self, threads, meaning):
        end = time.monotonic() + PATIENCE
        while not threads(self.querying()):
            if time.monotonic() > end:
                sys.exit(f"{meaning} is not so: {self.querying()}")
            os.sched_yield()


def main(program, trace):
    home = os.environ["HOME"]
    environment = {"HOME": home, "TERM": "xterm", "PATH": os.environ["PATH"]}
    terminal = Terminal([program, trace, "--shell"], environment)
    terminal.expect("sql> ")
    for query in (BUSY, SILENT):
        # Immediately, and again once the query is working.
        for begun in (lambda times: True, any):
            terminal.type(query + "\r")
            terminal.expect(TAKEN)
            terminal.until(begun, "a query works")
            terminal.type("\x03")
            terminal.expect("interrupted")
            terminal.expect("sql> ")
            terminal.until(lambda times: not times, "no thread works any more")
            terminal.type("select 6 * 7 as answer;\r")
            terminal.expect(TAKEN)
            terminal.expect("42")
            terminal.expect("sql> ")
    # The history contains the last query, and before that the interrupted one.
    terminal.type("\x1b[A\r")
    terminal.expect("6 * 7")
    terminal.expect("42")
    terminal.expect("sql> ")
    terminal.type("\x04")
    _, status = os.waitpid(terminal.pid, 0)
    if status != 0:
        sys.exit(f"the shell ended with {status}")
    with open(f"{home}/.local/state/dlio/analyze-history") as file:
        history = file.read()
    if BUSY not in history or SILENT not in history:
        sys.exit(f"the history lacks what was interrupted: {history!r}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main(*sys.argv[1:])
