"""Spans of forward, backward and optimizer steps, all of category compute.

A backward or a step whose forward was not observed (a compiled function, `module.forward()` called directly, tensors without
modules) has the category pipeline: part of the compute time must not be mistaken for all of it.
"""

import functools
import threading
import weakref

from dliotrace import ai
from dliotrace._engine import Forwards, Span, busy, forward_was_seen
from dliotrace._patch import replace
from dliotrace._torch_shared import BACKWARD, DATA, FORWARD, STEP, compiling, plain, tracing


def instrument():
    import torch
    from torch.optim import optimizer

    replace(torch.nn.Module, "__call__", _with_forward)
    replace(torch.autograd, "backward", _with_backward)
    replace(torch.autograd, "grad", _with_gradients)
    if torch.distributed.is_available():
        replace(torch.nn.parallel.DistributedDataParallel, "__init__", _with_reduction)
    before, after = _step_hooks()
    _hook(optimizer._global_optimizer_pre_hooks, optimizer.register_optimizer_step_pre_hook, before)
    _hook(optimizer._global_optimizer_post_hooks, optimizer.register_optimizer_step_post_hook, after)


def _hook(present, register, hook):
    """Registers a hook once, replacing that of an earlier copy of this module."""
    for key, other in list(present.items()):
        if getattr(other, "_dliotrace", False) and other is not hook:
            del present[key]
    if hook not in present.values():
        register(hook)


class _Pair:
    """One kind of span, in two categories: if all compute is observed, and if only this part is."""

    def __init__(self, span, phase):
        self.seen = span.in_phase(phase)
        self.alone = Span(span.name, ai.pipeline.category).in_phase(phase)

    def now(self):
        return self.seen if forward_was_seen() else self.alone


# ---- forward ---------------------------------------------------------------------------------------------------------

_NO_FORWARD = FORWARD | BACKWARD | DATA


def _with_forward(call):
    is_compiling, span_of = compiling(), Forwards(_forward_of, _NO_FORWARD).find

    def __call__(self, *args, **kwargs):
        if is_compiling() or (span := span_of(self)) is None:
            return call(self, *args, **kwargs)
        with span:
            return call(self, *args, **kwargs)

    return plain(functools.wraps(call)(__call__))


# Packages whose modules prepare samples.
_TRANSFORMS = ("torchvision.transforms", "torchaudio.transforms", "kornia.augmentation", "kornia.enhance")


def _forward_of(kind, learns):
    """Returns the span of a forward. A module without parameters, called directly, is a transform, a loss or an activation."""
    if learns:
        return ai.compute.forward(module=kind.__name__).in_phase(FORWARD)
    if kind.__module__.startswith(_TRANSFORMS):
        return ai.data(f"transform.{kind.__name__}").in_phase(FORWARD)
    return ai.compute(f"forward.{kind.__name__}").in_phase(FORWARD)


# ---- backward --------------------------------------------------------------------------------------------------------

_NO_BACKWARD = BACKWARD | FORWARD | DATA
_backward = _Pair(ai.compute.backward, BACKWARD)
_reduce = ai.comm.all_reduce(by="DistributedDataParallel").in_phase(BACKWARD)
_reduced_models = None


def _with_reduction(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        global _reduced_models
        init(self, *args, **kwargs)
        if _reduced_models is None:
            _reduced_models = weakref.WeakSet()
        _reduced_models.add(self)

    return __init__


def _with_backward(run):
    is_compiling = compiling()

    def backward(*args, **kwargs):
        if is_compiling() or busy(_NO_BACKWARD):
            return run(*args, **kwargs)
        if _reduced_models is None or not any(model.require_forward_param_sync for model in _reduced_models):
            with _backward.now():
                return run(*args, **kwargs)
        with _Reduced(args[0] if args else None):
            return run(*args, **kwargs)

    return plain(functools.wraps(run)(backward))


def _with_gradients(run):
    is_compiling, compiled_now = compiling(), tracing()

    def grad(*args, **kwargs):
        if is_compiling() or busy(_NO_BACKWARD) or compiled_now() is not None:
            return run(*args, **kwargs)
        with _backward.now():
            return run(*args, **kwargs)

    return plain(functools.wraps(run)(grad))


class _Reduced:
    """A backward that ends with the reduction of the gradients of all ranks: compute until the last gradient is ready, then the
    part of the communication that compute did not hide.

    Autograd runs callbacks in the order of registration: one registered at the first node runs before the reducer.
    """

    def __init__(self, roots):
        first = roots[0] if isinstance(roots, (tuple, list)) and roots else roots
        node = getattr(first, "grad_fn", None)
        self.hook = None if node is None else node.register_prehook(self.begins)
        self.thread = threading.get_ident()

    def __enter__(self):
        self.running = _backward.now().begin()

    def begins(self, gradients):
        from torch.autograd import Variable

        Variable._execution_engine.queue_callback(self.computed)

    def computed(self):
        # Called on a device's own thread, it could not end a span of this thread.
        if self.thread == threading.get_ident():
            self.running.end()
            self.running = _reduce.begin()

    def __exit__(self, kind, value, traceback):
        if self.hook is not None:
            self.hook.remove()
        self.running.__exit__(kind, value, traceback)


# ---- optimizers ------------------------------------------------------------------------------------------------------

_NO_STEP = STEP | DATA
_step = _Pair(ai.compute.step, STEP)
_part = _Pair(ai.compute("optimizer.part"), STEP)
_failed = Span("optimizer.failed", ai.pipeline.category)


class _Step(dict):
    """Keyword arguments of a step, which live as long as its frame: PyTorch does not report a step that raised."""

    __slots__ = ("span", "thread", "__weakref__")

    def begin(self):
        self.thread, self.span = threading.get_ident(), _step.now().begin()

    def end(self):
        span, self.span = self.span, None
        span.end()

    def apart(self, closure):
        """Runs the closure, which computes forward and backward, outside the step's span, where they would count twice."""
        reference = weakref.ref(self)

        @functools.wraps(closure, updated=())
        def call(*args, **kwargs):
            step = reference()
            if step is None or step.span is None:
                return closure(*args, **kwargs)
            span, step.span = step.span, None
            span.end_as(_part.now())
            result = closure(*args, **kwargs)
            step.begin()
            return result

        return call

    def __del__(self):
        if self.span is not None and self.thread == threading.get_ident():
            self.span.end_as(_failed)


@functools.cache
def _step_hooks():
    is_compiling = compiling()

    def before(optimizer, args, kwargs):
        # One optimizer may use another, and one class the step of its base.
        if is_compiling() or busy(_NO_STEP):
            return None
        step = _Step(kwargs)
        if callable(kwargs.get("closure")):
            step["closure"] = step.apart(kwargs["closure"])
        elif len(args) > 1 and callable(args[1]):
            args = (args[0], step.apart(args[1]), *args[2:])
        step.begin()
        return args, step

    def after(optimizer, args, kwargs):
        if not is_compiling() and type(kwargs) is _Step:
            kwargs.end()

    before._dliotrace = after._dliotrace = True
    return before, after
