"""HTML for notebooks."""

import datetime
import html
from html import escape


def table(columns, rows, remark=""):
    """Returns a table; columns are names and Arrow types."""
    heads = "".join(f"<th>{html.escape(name)}</th>" for name, _ in columns)
    cells = ("".join(_cell(value, of) for value, (_, of) in zip(row, columns)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{paragraph(remark)}"


def paragraph(text):
    return f"<p>{html.escape(text)}</p>" if text else ""


def preformatted(text):
    return f"<pre>{html.escape(text)}</pre>"


def frame(document):
    """Returns a whole page as a part of another."""
    return f'<iframe srcdoc="{html.escape(document)}" style="width: 100%; height: 40em; border: 0"></iframe>'


def _cell(value, of):
    if value is None:
        return "<td></td>"
    text = _time(value) if of.startswith("Timestamp(ns") else str(value)
    align = ' style="text-align: right"' if isinstance(value, (int, float)) else ""
    return f"<td{align}>{html.escape(text)}</td>"


def _time(nanoseconds):
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    whole = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{whole:%Y-%m-%d %H:%M:%S}.{rest:09} UTC"
