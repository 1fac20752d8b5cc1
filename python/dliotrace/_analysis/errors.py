"""Errors and warnings of dlio-analyze as those of Python."""

import re
import sys
import warnings


class TraceError(Exception):
    """A trace cannot be analyzed. The text is that of dlio-analyze; ``remedy`` is its advice, and ``status`` its exit status."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status

    @property
    def remedy(self):
        first, *_ = str(self).splitlines() or [""]
        return first.rpartition("; ")[2] if "; " in first else ""


class TraceWarning(UserWarning):
    """A note of dlio-analyze: events that were lost, damaged files, several runs."""


def failed(messages, status):
    """Returns the error for the messages of a failed dlio-analyze: the last one is the reason."""
    *notes, reason = _split(messages) or [f"dlio-analyze failed with exit status {status} and without a message"]
    for note in notes:
        _warn(note)
    return TraceError(reason, status)


def warn(messages):
    """Issues messages as warnings."""
    for note in _split(messages):
        _warn(note)


def _split(messages):
    """Returns single messages, without the name of the program and the hint at --help."""
    messages = re.sub(r"\n+For more information, try '--help'\.\s*\Z", "", messages)
    return [text.strip() for text in re.split(r"^dlio-analyze: ", messages, flags=re.M) if text.strip()]


def _warn(text):
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dliotrace."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, TraceWarning, stacklevel=level)
