"""What the spans of PyTorch have in common."""

# The activity of a thread: a span of one kind within others of that kind would count work twice.
DATA, ITEM, FORWARD, BACKWARD, STEP, SAVE, COMM = (1 << bit for bit in range(7))


def compiling():
    """PyTorch's way to ask whether the code that asks is being compiled: it must then be as it is without us."""
    import torch

    return torch.compiler.is_dynamo_compiling


def tracing():
    """PyTorch's way to ask what is being compiled: the compiler computes gradients, too, of nothing."""
    from torch._guards import TracingContext

    return TracingContext.try_get


def plain(function):
    """Has PyTorch's compiler step over this function's frame, so that it finds what is called below as it does without us."""
    try:
        from torch._C._dynamo.eval_frame import skip_code
    except ImportError:  # a version without a compiler, or with another name for it
        return function
    skip_code(function.__code__)
    return function
