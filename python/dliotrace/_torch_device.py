"""The stream of a device that runs the model. PyTorch has the names of CUDA for devices of AMD, too."""


def stream_of_model():
    """Returns a function that returns the handle of the current stream of this thread, or None if the program uses no device.

    The function never initializes a device, and loads nothing.
    """
    import torch

    is_initialized = torch.cuda.is_initialized

    def stream():
        # Also false in forked children of a process that uses a device.
        if not is_initialized():
            return None
        return torch._C._cuda_getCurrentRawStream(torch._C._cuda_getDevice())

    return stream
