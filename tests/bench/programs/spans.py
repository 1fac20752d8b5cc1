"""Measures the cost of a span in Python: `spans.py KIND` prints nanoseconds of CPU time per span, the minimum of many rounds.

KIND is one (a span created once and entered repeatedly), new (a new span each time), meta (a new span with a value), function or
method (decorated); or nothing_one and so on: the empty Python equivalent.
"""

import sys
import time
import timeit

from dliotrace import span, traced

ROUNDS, SPANS = 60, 10_000


class Nothing:
    __slots__ = ("name",)

    def __init__(self, name, **values):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return None


def wrapped(function):
    def called(*values, **named):
        return function(*values, **named)

    return called


class Holder:
    def bare(self):
        pass

    decorated = traced(bare)
    nothing = wrapped(bare)


def plain():
    pass


# The measured code, and the overhead to subtract: the loop, the call.
KINDS = {
    "one": ("with one: pass", "pass", {"one": span("step", cat="compute")}),
    "new": ("with span('step'): pass", "pass", {"span": span}),
    "meta": ("with span('step', step=3): pass", "pass", {"span": span}),
    "function": ("decorated()", "plain()", {"decorated": traced(plain), "plain": plain}),
    "method": ("held.decorated()", "held.bare()", {"held": Holder()}),
    "nothing_one": ("with one: pass", "pass", {"one": Nothing("step")}),
    "nothing_new": ("with span('step'): pass", "pass", {"span": Nothing}),
    "nothing_meta": ("with span('step', step=3): pass", "pass", {"span": Nothing}),
    "nothing_function": ("decorated()", "plain()", {"decorated": wrapped(plain), "plain": plain}),
    "nothing_method": ("held.nothing()", "held.bare()", {"held": Holder()}),
}


def least(statement, names):
    rounds = timeit.repeat(statement, globals=names, number=SPANS, repeat=ROUNDS, timer=time.thread_time)
    return min(rounds) / SPANS * 1e9


def main():
    statement, floor, names = KINDS[sys.argv[1]]
    print(f"{least(statement, names) - least(floor, names):.1f} ns a span")


main()
