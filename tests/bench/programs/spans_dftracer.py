"""Measures the cost of a span in DFTracer's Python interface: `spans_dftracer.py new|meta|function FOLDER` prints the
numbers of spans.py."""

import sys
import time
import timeit

from dftracer.python import dft_fn, dftracer

ROUNDS, SPANS = 20, 2_000


def plain():
    pass


def least(statement, names):
    rounds = timeit.repeat(statement, globals=names, number=SPANS, repeat=ROUNDS, timer=time.thread_time)
    return min(rounds) / SPANS * 1e9


def main():
    log = dftracer.initialize_log(f"{sys.argv[2]}/spans.pfw", "/", -1)
    kinds = {
        "new": ("with span('compute', name='step'): pass", "pass"),
        "meta": ("with span('compute', name='step', step=3): pass", "pass"),
        "function": ("decorated()", "plain()"),
    }
    statement, floor = kinds[sys.argv[1]]
    names = {"span": dft_fn, "decorated": dft_fn("compute").log(plain), "plain": plain}
    print(f"{least(statement, names) - least(floor, names):.1f} ns a span")
    log.finalize()


main()
