from dliotrace._engine import Span

class Category:
    category: str
    def __init__(self, category: str, **names: str) -> None: ...
    def __call__(self, name: str, /, **meta: object) -> Span: ...

class _Compute(Category):
    compute: Span
    forward: Span
    backward: Span
    step: Span

class _Data(Category):
    fetch: Span
    item: Span
    preprocess: Span
    start: Span

class _Comm(Category):
    all_reduce: Span
    all_gather: Span
    all_to_all: Span
    reduce_scatter: Span
    broadcast: Span
    barrier: Span
    send: Span
    receive: Span

class _Device(Category):
    to_device: Span
    to_host: Span
    synchronize: Span

class _Checkpoint(Category):
    save: Span
    load: Span

class _Pipeline(Category):
    epoch: Span
    train: Span
    evaluate: Span
    test: Span

compute: _Compute
data: _Data
comm: _Comm
device: _Device
checkpoint: _Checkpoint
pipeline: _Pipeline
