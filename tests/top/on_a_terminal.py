"""Runs `dlio-top` on its own terminal, types, and compares its screen and its leftovers with the expected ones.

usage: on_a_terminal.py DLIO-TOP FOLDER WAY; WAY ends the program: q, ctrl-c or term
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PATIENCE = 60


class Terminal:
    def __init__(self, command, width, height):
        self.ours, theirs = pty.openpty()
        self.resize(width, height, None)
        self.before = termios.tcgetattr(theirs)
        self.theirs, self.seen = theirs, ""
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)

    def resize(self, width, height, process):
        self.size = width, height
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        if process:
            process.send_signal(signal.SIGWINCH)

    def type(self, text):
        os.write(self.ours, text)

    def read_until(self, what, is_enough):
        """Reads output until it is sufficient."""
        until = time.monotonic() + PATIENCE
        while not is_enough(self.seen):
            if time.monotonic() > until:
                sys.exit(f"{what} does not come; shown: {shown(self.seen, *self.size)!r}")
            if select.select([self.ours], [], [], 1)[0]:
                self.seen += os.read(self.ours, 65536).decode("utf-8", "replace")

    def wait_for(self, text):
        self.read_until(repr(text), lambda seen: text in shown(seen, *self.size))

    def end(self):
        self.read_until("the other screen's end", lambda seen: "\x1b[?1049l" in seen)
        _, errors = self.process.communicate(timeout=PATIENCE)
        after = termios.tcgetattr(self.theirs)
        assert self.process.returncode == 0, (self.process.returncode, errors)
        assert errors == b"", errors
        assert after == self.before, "the terminal is not as it was"
        assert "\x1b[?25h" in self.seen, "the cursor is still hidden"


def shown(drawn, width, height):
    """Returns the contents of the screen. The program positions every part it draws, and does not redraw unchanged parts."""
    lines, x, y = {}, 0, 0
    for piece in re.finditer(r"\x1b\[(\??[0-9;]*)([A-Za-z])|([^\x1b])", drawn):
        numbers, command, letter = piece.groups()
        if command == "H":
            y, x = (int(number) - 1 for number in numbers.split(";"))
        elif command == "J":
            lines.clear()
        elif letter:
            lines[y, x] = letter
            x += 1
    return "\n".join("".join(lines.get((y, x), " ") for x in range(width)).rstrip() for y in range(height))


def main():
    program, folder, way = sys.argv[1:]
    terminal = Terminal([program, folder, "--interval", "0.2"], 100, 24)
    if not os.path.exists(folder):
        terminal.wait_for("Waiting for " + folder)
        os.mkdir(folder)
        terminal.wait_for("0 processes running")
    else:
        terminal.wait_for("1 process running")
        terminal.type(b"c")
        terminal.wait_for("[c:calls]")
        # An arrow is not a key of the program, although it ends with a letter that is a key.
        terminal.type(b"\x1b[B")
        terminal.type(b" ")
        terminal.wait_for("paused")
        # The last line of each size is drawn at that size's bottom.
        terminal.resize(90, 12, terminal.process)
        terminal.read_until("a screen of 12 lines", lambda seen: "q: quit" in shown(seen, 90, 12).split("\n")[11])
        terminal.resize(80, 30, terminal.process)
        terminal.read_until("a screen of 30 lines", lambda seen: "q: quit" in shown(seen, 80, 30).split("\n")[29])
    if way == "term":
        terminal.process.send_signal(signal.SIGTERM)
    else:
        terminal.type({"q": b"q", "ctrl-c": b"\x03"}[way])
    terminal.end()


main()
