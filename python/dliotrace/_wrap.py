"""Spans around functions of every kind, and around iterations.

==================  ==================================================================================================
a function          one span per call; the wrapper is compiled and leaves no frame in tracebacks
async def           one span per call, from its first step to its end, including the time of other tasks
a generator         one span per item, without the time of the consumer; an unfinished generator leaves no open span
an async generator  one span per item
==================  ==================================================================================================
"""

import functools
import inspect

try:
    from dliotrace._engine import Span, Traced, TracedIterator
except ImportError:
    from dliotrace._absent import Span, Traced, TracedIterator


def traced(function=None, /, *, name=None, cat="app", **meta):
    """Decorates a function: ``@traced``, ``@traced("name")`` or ``@traced(cat="data", epoch=1)``.

    The span has the name of the function, unless a name is given.
    """
    if isinstance(function, str):
        name, function = function, None
    if function is None:
        return lambda function: traced(function, name=name, cat=cat, **meta)
    plain = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
    named = name or getattr(plain, "__qualname__", None) or type(plain).__name__
    return wrap(function, Span(named, cat, **meta))


def wrap(function, span):
    """Returns `function` with `span` around it."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrap(function.__func__, span))
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"cannot trace {function!r}: expected a function or a method")
    for is_kind, wrap_kind in _KINDS:
        if is_kind(function):
            return functools.wraps(function)(wrap_kind(function, span))
    return functools.update_wrapper(Traced(function, span), function)


def traced_iter(iterable, span="fetch", /, cat="data", **meta):
    """Iterates with a span around the production of each item; ``step`` counts them. Accepts async iterables too."""
    if isinstance(span, str):
        span = Span(span, cat, **meta)
    elif meta:
        span = span.with_meta(**meta)
    return _async_items(iterable, span) if hasattr(iterable, "__aiter__") else TracedIterator(iterable, span)


async def _async_items(iterable, span):
    iterator, step = iterable.__aiter__(), 0
    while True:
        try:
            with span.with_meta(step=step):
                item = await iterator.__anext__()
        except StopAsyncIteration:
            return
        yield item
        step += 1


def _wrap_coroutine(function, span):
    async def call(*args, **kwargs):
        # A separate span: calls of several tasks are open at the same time and end in any order.
        with span.with_meta():
            return await function(*args, **kwargs)

    return call


class _Items:
    """A generator with a span around each step."""

    __slots__ = ("generator", "span")

    def __init__(self, generator, span):
        self.generator, self.span = generator, span.with_meta()

    def __iter__(self):
        return self

    def __next__(self):
        with self.span:
            return next(self.generator)

    def send(self, value):
        with self.span:
            return self.generator.send(value)

    def throw(self, *error):
        with self.span:
            return self.generator.throw(*error)

    def close(self):
        self.generator.close()


def _wrap_generator(function, span):
    def items(*args, **kwargs):
        return (yield from _Items(function(*args, **kwargs), span))

    return items


def _wrap_async_generator(function, span):
    async def items(*args, **kwargs):
        generator = function(*args, **kwargs)
        own = span.with_meta()
        step = generator.__anext__()
        while True:
            try:
                with own:
                    item = await step
            except StopAsyncIteration:
                return
            try:
                step = generator.asend((yield item))
            except GeneratorExit:
                await generator.aclose()
                raise
            except BaseException as error:
                step = generator.athrow(error)

    return items


_KINDS = (
    (inspect.iscoroutinefunction, _wrap_coroutine),
    (inspect.isasyncgenfunction, _wrap_async_generator),
    (inspect.isgeneratorfunction, _wrap_generator),
)
