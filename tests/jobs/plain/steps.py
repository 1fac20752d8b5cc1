"""The common part of the jobs in this directory: data are made separately from running, and spans are optional.

    job.py make DIR            writes the data set
    job.py run DIR [--spans]   trains on it

Spans go through the table of the library that is preloaded, as those of dliotrace.h do: no wheel is needed for them.
"""

import contextlib
import ctypes
import sys
import time


class OpenSpan(ctypes.Structure):
    _fields_ = [
        ("start", ctypes.c_uint64),
        ("name", ctypes.c_uint32),
        ("category", ctypes.c_uint32),
        ("steps", ctypes.c_int64),
        ("generation", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("line", ctypes.c_size_t),
    ]


class Engine(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("on", ctypes.c_void_p),
        ("generation", ctypes.c_void_p),
        ("intern", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)),
        ("begin", ctypes.CFUNCTYPE(None, ctypes.POINTER(OpenSpan), ctypes.c_uint32, ctypes.c_uint32, ctypes.c_int64)),
        ("update", ctypes.c_void_p),
        ("end", ctypes.CFUNCTYPE(None, ctypes.POINTER(OpenSpan), ctypes.c_void_p, ctypes.c_size_t)),
    ]


def traced():
    """Marks a phase in the trace: `with span("fetch", "data", epoch=1, step=3)`."""
    found = ctypes.CDLL(None).dlio_engine_v1
    found.restype = ctypes.POINTER(Engine)
    engine = found().contents
    text = lambda kind, word: engine.intern(kind, word.encode(), len(word))

    @contextlib.contextmanager
    def span(name, category, epoch, step):
        begun = OpenSpan()
        engine.begin(begun, text(3, name), text(4, category), epoch << 32 | step)
        try:
            yield
        finally:
            engine.end(begun, None, 0)

    return span


def nothing(*_, **__):
    return contextlib.nullcontext()


def main(make, train):
    """`make(folder)` writes the data; `train(folder, span)` marks its phases with `span(name, category, epoch, step)`."""
    what, folder, *rest = sys.argv[1:]
    if what == "make":
        return make(folder)
    return train(folder, traced() if "--spans" in rest else nothing)


def compute(seconds, span, **where):
    """Simulates the work of an accelerator."""
    with span("compute", "compute", **where):
        time.sleep(seconds)
