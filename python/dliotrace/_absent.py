"""Replaces the engine if it cannot be loaded: the same names, without any effect."""


class Span:
    __slots__ = ("name", "category")

    def __init__(self, name, /, cat="app", **meta):
        self.name, self.category = name, cat

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        return None

    def begin(self):
        return self

    def end(self):
        return None

    def set(self, **meta):
        return self

    def with_meta(self, **meta):
        return self

    def __call__(self, function=None, /, **meta):
        return self if function is None else function


def Traced(function, span):
    return function


def TracedIterator(iterable, span):
    return iter(iterable)


def instant(name, /, cat="app", **meta):
    return None


def counter(name, value, /, cat="app"):
    return None


def describe(key, value, /):
    return None


def now():
    return 0


def io_done(operation, url, /, start, *, end=0, pos=None, requested=0, moved=0, errno=0, **args):
    return None


def enabled():
    return False
