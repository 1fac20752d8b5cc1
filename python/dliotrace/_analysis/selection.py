"""Filters of a trace, as options of dlio-analyze."""

import datetime

OPTIONS = {
    "run": "--run", "from_": "--from", "to": "--to", "for_": "--for", "epoch": "--epoch", "step": "--step", "pid": "--pid",
    "rank": "--rank", "file": "--file", "cat": "--cat", "call": "--call", "min_dur": "--min-dur",
}  # fmt: skip
# Filters with a time, as a number in seconds.
TIMES = ("from_", "to", "for_", "min_dur")
# Filters with a number or a range of numbers.
RANGES = ("epoch", "step")


def options(filters):
    """Returns the options for filters by name; filters that are None are left out."""
    unknown = [name for name in filters if name not in OPTIONS]
    if unknown:
        raise TypeError(f"unknown filter {unknown[0]!r}; the filters are {', '.join(OPTIONS)}")
    return [
        f"{OPTIONS[name]}={text}" for name, value in filters.items() if value is not None for text in _texts(name, value)
    ]


def _texts(name, value):
    """Returns the values of one option, which is repeated for each of them."""
    if name in RANGES and isinstance(value, (range, tuple)):
        return [f"{value[0]}..{value[-1]}"] if value else []
    if isinstance(value, (list, tuple, set, range)):
        return [str(one) for one in value]
    return [_time(name, value) if name in TIMES else str(value)]


def _time(name, value):
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise TypeError(f"cannot filter by {name}={value!r}: it has no time zone; add tzinfo=datetime.timezone.utc")
        return f"{value.timestamp():.6f}"
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    return f"{value:.9f}s" if isinstance(value, (int, float)) else str(value)
