"""Helpers for the spans of PyTorch."""

# The activity of a thread: a span of one kind within others of that kind would count work twice.
DATA, ITEM, FORWARD, BACKWARD, STEP, SAVE, COMM = (1 << bit for bit in range(7))


def compiling():
    """Returns PyTorch's function that reports whether its caller is being compiled, which must then behave as without spans."""
    import torch

    return torch.compiler.is_dynamo_compiling


def tracing():
    """Returns PyTorch's function for the current compilation. The compiler also computes gradients, of placeholders."""
    from torch._guards import TracingContext

    return TracingContext.try_get


def plain(function):
    """Makes PyTorch's compiler skip this function's frame, so that it compiles the called code as without the tracer."""
    try:
        from torch._C._dynamo.eval_frame import skip_code
    except ImportError:  # a version without a compiler, or with another name for it
        return function
    skip_code(function.__code__)
    return function
