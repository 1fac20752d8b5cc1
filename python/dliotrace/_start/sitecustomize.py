"""Runs at the start of each Python process under `python3 -m dliotrace run --torch`.

It adds spans to PyTorch when the program has imported it. Before that, it imports neither PyTorch nor this package.

`run` adds the directory of this file to PYTHONPATH, so that `site` finds it in child processes too. It is invisible to the
program: sys.path does not contain it, and a sitecustomize of the user runs instead of this one. A program can start another
version of Python, so this file uses no new syntax.
"""

import os
import sys


class _Torch(object):
    """Waits for the import of PyTorch: a finder that uses the other finders and watches the module's spec."""

    names = ("torch", "torch.utils.data")

    def __init__(self):
        self.imported = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.names or self not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                self.watch(spec)
                return spec
        return None

    def watch(self, spec):
        """Arranges a call of `ended` at the end of the import.

        Until then, the spec has a separate class. Wrapping its loader would add a frame to the stack during the import of PyTorch;
        this way, warnings and tracebacks do not change.
        """
        plain = type(spec)
        try:
            spec.__class__ = type(plain.__name__, (plain,), {"_initializing": _Initializing(self, plain)})
        except TypeError:
            pass  # a finder with its own kind of spec, which cannot be watched: there are no spans

    def ended(self, name):
        """Handles the end of an import, successful or not."""
        if name in sys.modules:
            self.imported.add(name)
        # PyTorch itself imports torch.utils.data, and is incomplete at that point.
        if all(name in self.imported for name in self.names) and self in sys.meta_path:
            sys.meta_path.remove(self)
            _instrument()


class _Initializing(object):
    """The attribute of a spec that importlib sets to False when the import of the module ends."""

    def __init__(self, torch, plain):
        self.torch, self.plain = torch, plain

    def __get__(self, spec, owner=None):
        return self if spec is None else spec.__dict__.get("_initializing", False)

    def __set__(self, spec, value):
        spec.__dict__["_initializing"] = value
        if not value:
            spec.__class__ = self.plain
            self.torch.ended(spec.name)


def _instrument():
    try:
        import dliotrace.torch

        dliotrace.torch.instrument()
    except Exception as error:
        sys.stderr.write("dliotrace: cannot add spans to PyTorch: %s; the program runs without them\n" % error)


def _leave():
    """Removes the directory of this file from the module search path."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if place != here]
    sys.path_importer_cache.pop(here, None)


_leave()
# Python 3.10 is the oldest that this package runs on.
if sys.version_info >= (3, 10) and os.environ.get("DLIO_TRACE") != "0":
    sys.meta_path.insert(0, _Torch())
# The user's own module, if there is one, replaces this module in sys.modules. Without one, `site` expects this error.
del sys.modules["sitecustomize"]
import sitecustomize  # noqa: E402,F401
