"""Spans in PyTorch programs: run ``python -m dliotrace run --torch train.py``, which leaves the script as it is, or call
`instrument()` in the script once, before the first pass over a loader.

==============  ===============  =====================================================================================
span            category
==============  ===============  =====================================================================================
loader.start    data             `iter(loader)`: workers are started here
fetch           data             the training waits for a batch; `epoch` counts passes over this loader, `step` batches
fetch.end       data             it finds that there are no more; workers are stopped here
item            data             a sample is made, in the worker or process that makes it: `index`, `worker`
items           data             the same where a data set makes whole batches (`__getitems__`): `count`
collate         data             samples become a batch
forward         compute          the outermost module; one without parameters, as a loss, is `forward.` and its class
backward        compute          `backward()` or `autograd.grad()`
optimizer.step  compute          without its closure; what lies before and between closures is `optimizer.part`
all_reduce ...  comm             collectives; of DistributedDataParallel, what is not hidden behind the backward
checkpoint.*    checkpoint       save and load: `path`, `bytes`
==============  ===============  =====================================================================================

It stands between PyTorch and the program: data sets, loaders, models and optimizers of the program stay what they are, and
results, errors and random numbers the same. Workers are covered however they are started. Code that is compiled
(`torch.compile`) stays free of spans; a compiled model has one around it. Where the forward of a training step was not
seen, its backward and its step are of category pipeline, so that no report takes them for all of the computing.
"""

from dliotrace import enabled


def instrument():
    """Puts spans into PyTorch. A second call changes nothing, and so does one where nothing is recorded."""
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
