"""Replaces functions of other libraries, once, including libraries that are imported later."""

import importlib.util
import sys

_MARK = "_dliotrace"


def replace(owner, name, make):
    """Replaces a function, or a method of a class, by ``make(present)``.

    A second call has no effect. The replacement of an earlier copy of this package is replaced.
    """
    static = isinstance(vars(owner).get(name), staticmethod)
    present = getattr(owner, name)
    made, original = getattr(present, _MARK, (None, present))
    if made is not None and (made is not present or made in _made):
        return  # our wrapper, or another one around it
    made = make(original)
    setattr(made, _MARK, (made, original))
    _made.append(made)
    setattr(owner, name, staticmethod(made) if static else made)


_made = []


def when_imported(name, patch):
    """Calls `patch` with the module of that name, now or when it has been imported."""
    module = sys.modules.get(name)
    if module is not None:
        patch(module)
    elif not any(isinstance(finder, _Patches) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Patches(name, patch))


class _Patches:
    """Finds one module like the other finders, and patches it after it has been executed."""

    def __init__(self, name, patch):
        self.name, self.patch = name, patch

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if execute is not None:

            def exec_module(module):
                execute(module)
                self.patch(module)

            spec.loader.exec_module = exec_module
        return spec
