"""Progress of dlio-analyze: one line that is drawn again, on a terminal and in the output of a notebook's cell."""

import sys
import time

# A shorter wait needs no progress.
SHORT = 0.5


class Progress:
    """Draws the progress of one result, and removes it at the end. The engine calls it, on the main thread."""

    def __init__(self):
        self._start = time.monotonic()
        self._width = 0

    def draw(self, done, all, events):
        if time.monotonic() - self._start >= SHORT:
            self._write(f"dlio-analyze: {100 * done // max(all, 1)} % of the trace, {events:,} events")

    def clear(self):
        if self._width:
            self._write("")
            sys.stderr.write("\r")
            sys.stderr.flush()

    def _write(self, text):
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = max(self._width, len(text))


def is_visible():
    """Returns True on a terminal and in a notebook."""
    return sys.stderr is not None and (sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel."))
