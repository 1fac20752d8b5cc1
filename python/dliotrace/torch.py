"""Spans in PyTorch programs: run ``python3 -m dliotrace run --torch train.py``, which needs no change to the script, or call
`instrument()` once in the script, before the first loop over a loader.

==============  ===============  =====================================================================================
span            category
==============  ===============  =====================================================================================
loader.start    data             `iter(loader)`, which starts workers
fetch           data             waiting for a batch; `epoch` counts loops over this loader, `step` batches
fetch.end       data             the end of the loader, which stops workers
item            data             making a sample, in the worker or process that does it: `index`, `worker`
items           data             making a whole batch (`__getitems__`): `count`
collate         data             combining samples into a batch
forward         compute          the outermost module; `forward.CLASS` for one without parameters, such as a loss
transform.*     data             a transform of torchvision, torchaudio or kornia in the training process or a worker
backward        compute          `backward()` or `autograd.grad()`
optimizer.step  compute          without its closure; time before and between closures is `optimizer.part`
all_reduce ...  comm             collectives; for DistributedDataParallel, the part not hidden by the backward
checkpoint.*    checkpoint       save and load: `path`, `bytes`
==============  ===============  =====================================================================================

The spans do not change the program's data sets, loaders, models or optimizers, nor its results, errors and random numbers.
Workers are covered, however they are started. Compiled code (`torch.compile`) contains no spans; a compiled model has one
around it. If the forward of a training step was not observed, its backward and its step get the category pipeline, so that
reports do not count them as the whole compute time.
"""

from dliotrace import enabled


def instrument():
    """Adds spans to PyTorch. Has no effect if nothing is recorded, or if called a second time."""
    if not enabled():
        return
    from dliotrace import _torch_checkpoint, _torch_comm, _torch_compute, _torch_data

    _torch_data.instrument(_worker_loop)
    for part in (_torch_compute, _torch_comm, _torch_checkpoint):
        part.instrument()


def _worker_loop(*args, **kwargs):
    """Runs in a worker of a data loader. A spawned worker imports it by name, before any of the parent's patches are applied."""
    from dliotrace import _torch_data

    instrument()
    return _torch_data.work(*args, **kwargs)
