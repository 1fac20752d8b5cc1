"""What a span costs in Python: `spans.py KIND` prints nanoseconds of processor time a span, the least of many rounds.

KIND is nothing (a `with` that does nothing), one (a span made once, entered again and again), new (a new one each time),
meta (a new one with a value), function or method (decorated).
"""

import sys
import time
import timeit

from dliotrace import span, traced

ROUNDS, SPANS = 60, 10_000


class Nothing:
    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return None


class Holder:
    def bare(self):
        pass

    decorated = traced(bare)


def plain():
    pass


# What is timed, and what is taken off: the loop, the call.
KINDS = {
    "nothing": ("with one: pass", "pass", {"one": Nothing()}),
    "one": ("with one: pass", "pass", {"one": span("step", cat="compute")}),
    "new": ("with span('step'): pass", "pass", {"span": span}),
    "meta": ("with span('step', step=3): pass", "pass", {"span": span}),
    "function": ("decorated()", "plain()", {"decorated": traced(plain), "plain": plain}),
    "method": ("held.decorated()", "held.bare()", {"held": Holder()}),
}


def least(statement, names):
    rounds = timeit.repeat(statement, globals=names, number=SPANS, repeat=ROUNDS, timer=time.thread_time)
    return min(rounds) / SPANS * 1e9


def main():
    statement, floor, names = KINDS[sys.argv[1]]
    print(f"{least(statement, names) - least(floor, names):.1f} ns a span")


main()
