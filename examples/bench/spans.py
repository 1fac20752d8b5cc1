"""What a span costs in Python: nanoseconds of processor time, the least of many rounds, beside a `with` that does nothing."""

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


def least(statement, **names):
    rounds = timeit.repeat(statement, globals=names, number=SPANS, repeat=ROUNDS, timer=time.thread_time)
    return min(rounds) / SPANS * 1e9


def report(what, taken, floor):
    print(f"Python {what:<23} {taken - floor:6.1f} ns")


def main():
    empty, call, method = least("pass"), least("f()", f=plain), least("h.bare()", h=Holder())
    report("with that does nothing", least("with one: pass", one=Nothing()), empty)
    report("with, one span", least("with one: pass", one=span("step", cat="compute")), empty)
    report("with, new span", least("with span('step'): pass", span=span), empty)
    report("with, new span, step=3", least("with span('step', step=3): pass", span=span), empty)
    report("decorated function", least("f()", f=traced(plain)), call)
    report("decorated method", least("h.decorated()", h=Holder()), method)


if __name__ == "__main__":
    main()
