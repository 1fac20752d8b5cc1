"""Common uses of PyTorch, case by case: ``torch_cases.py [plain]``. Each case is a span of category case, and prints its
result, which must be the same without any span (``plain``)."""

import array
import collections
import hashlib
import io
import json
import os
import pickle
import random
import sys
import warnings

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from dliotrace import span

PLAIN = "plain" in sys.argv
CASES = []


def case(function):
    CASES.append(function)
    return function


class Squares(Dataset):
    """Samples that show the random numbers of their worker."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.tensor([float(index), random.random(), np.random.rand(), torch.rand(1).item()])


class Batched(Squares):
    def __getitems__(self, indices):
        return [self[index] for index in indices]


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        start, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(start, 10, step))


class Broken(Squares):
    def __getitem__(self, index):
        if index == 5:
            raise LookupError(f"no sample {index}")
        return index


class Transformed(Squares):
    """Modules may transform samples, which is not training."""

    def __init__(self):
        self.transform = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index))).detach()


class Unhashable(DataLoader):
    __hash__ = None

    def __eq__(self, other):
        return True

    def __iter__(self):
        yield from super().__iter__()


def init_worker(worker):
    random.seed(worker)


def seen(loader, passes=1):
    return [[np.asarray(batch, dtype=float).tolist() for batch in loader] for _ in range(passes)]


def failure(work):
    try:
        work()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


# ---- loaders ---------------------------------------------------------------------------------------------------------


@case
def data_sets_of_any_type():
    kinds = [[1, 2, 3, 4], torch.arange(4.0), np.arange(4), array.array("i", range(4)), range(4), collections.deque(range(4))]
    return [seen(DataLoader(kind, batch_size=2)) for kind in kinds]


def workers(method):
    loader = DataLoader(
        Squares(), batch_size=3, shuffle=True, num_workers=2, multiprocessing_context=method, worker_init_fn=init_worker
    )
    return [seen(loader), loader.worker_init_fn is init_worker, type(loader.dataset) is Squares]


@case
def forked_workers():
    return workers("fork")


@case
def spawned_workers():
    return workers("spawn")


@case
def workers_of_a_fork_server():
    return workers("forkserver")


@case
def persistent_workers():
    return seen(DataLoader(Squares(), batch_size=4, num_workers=2, persistent_workers=True), passes=3)


@case
def pinned_memory():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        return [seen(DataLoader(Squares(), batch_size=4, num_workers=1, pin_memory=True)), [str(each.message) for each in said]]


@case
def subsets():
    inner = Subset(Squares(), [7, 3, 9, 1])
    parts = torch.utils.data.random_split(Squares(), [8, 4], torch.Generator().manual_seed(0))
    return [seen(DataLoader(each, batch_size=2)) for each in (inner, Subset(inner, [0, 2]), Subset(Batched(), [4, 5]), *parts)]


@case
def whole_batches():
    return [seen(DataLoader(Batched(), batch_size=4, num_workers=workers)) for workers in (0, 2)]


@case
def samples_one_by_one():
    return seen(DataLoader(Squares(), batch_size=None))


@case
def streams():
    return [seen(DataLoader(Stream(), batch_size=4, num_workers=workers)) for workers in (0, 2)]


@case
def early_break():
    for batch in DataLoader(Squares(), batch_size=2, num_workers=2):
        break
    iterator = iter(DataLoader(Squares(), batch_size=2))
    next(iterator)
    del iterator
    return batch.tolist()


@case
def failing_workers():
    return [failure(lambda: seen(DataLoader(Broken(), batch_size=4, num_workers=count))) for count in (0, 2)]


@case
def failing_parts():
    part = Subset(Broken(), range(4, 8))
    return [failure(lambda: seen(DataLoader(part, batch_size=4, num_workers=count))) for count in (0, 1)]


@case
def impossible_data_sets():
    return [failure(lambda: seen(DataLoader(kind, sampler=[0, 1]))) for kind in (None, 5, object)]


@case
def loaders_side_by_side():
    one, other = DataLoader(Squares(), batch_size=4), DataLoader(Squares(), batch_size=4, num_workers=1)
    return [[a.tolist(), b.tolist()] for a, b in zip(one, other)]


@case
def loaders_in_loops_of_loaders():
    inner = DataLoader([1, 2], batch_size=1)
    return [[a.item(), b.item()] for a in DataLoader([3, 4], batch_size=1) for b in inner]


class Nested(Squares):
    def __getitem__(self, index):
        return sum(batch.sum().item() for batch in DataLoader([index, index], batch_size=1))


@case
def loaders_within_data_sets():
    return [seen(DataLoader(Nested(), batch_size=6, num_workers=workers)) for workers in (0, 1)]


@case
def own_loaders():
    loader = Unhashable(Squares(), batch_size=6)
    return seen(loader, passes=2)


@case
def modules_in_data_sets():
    return [seen(DataLoader(Transformed(), batch_size=6, num_workers=workers)) for workers in (0, 1)]


@case
def things_stay_what_they_are():
    data, loader = Squares(), DataLoader(Squares(), batch_size=4)
    seen(loader)
    stay = [type(loader.dataset) is Squares, Squares.__getitem__.__module__, loader.collate_fn.__name__, sorted(vars(loader))]
    model = torch.nn.Linear(2, 2)
    model(torch.ones(2))
    stored = [len(pickle.dumps(each)) for each in (data, model, torch.save, torch.optim.SGD(model.parameters()))]
    return [stay, stored, sorted(vars(model)), type(pickle.loads(pickle.dumps(data))).__name__]


# ---- computing -------------------------------------------------------------------------------------------------------


def small_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


def train(model, optimizer, forward=None, data=None, loss_of=torch.nn.functional.mse_loss):
    losses, forward = [], forward or model
    for batch in DataLoader(data or TensorDataset(torch.arange(32.0).reshape(8, 4) / 32), batch_size=2):
        optimizer.zero_grad()
        loss = loss_of(forward(batch[0]), torch.ones(2, 1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@case
def training():
    model = small_model()
    return train(model, torch.optim.Adam(model.parameters()))


@case
def losses_that_are_modules():
    model = small_model()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), loss_of=torch.nn.MSELoss())


@case
def transforms():
    from torchvision.transforms import v2

    change = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Normalize([0.5], [0.5])])
    return [change(index * torch.arange(16.0).reshape(1, 4, 4)).sum().item() for index in range(3)]


@case
def mixed_precision():
    model = small_model()
    optimizer, scaler, losses = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu"), []
    for batch in DataLoader(torch.arange(32.0).reshape(8, 4) / 32, batch_size=2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(batch).float().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@case
def closures():
    model, data = small_model(), torch.arange(16.0).reshape(4, 4) / 16
    losses, result = [], []
    for optimizer in (torch.optim.LBFGS(model.parameters(), max_iter=3), torch.optim.SGD(model.parameters(), lr=0.1)):

        def closure():
            optimizer.zero_grad()
            loss = model(data).mean()
            loss.backward()
            losses.append(loss.item())
            return loss

        result += [optimizer.step(closure).item(), optimizer.step(closure=closure).item()]

    def fails():
        raise KeyError("closure")

    return [losses, result, failure(lambda: optimizer.step(fails)), optimizer.step(closure).item()]


class Failing(torch.optim.SGD):
    fails = True

    def step(self, closure=None):
        if self.fails:
            raise ArithmeticError("step")
        return super().step(closure)


@case
def failing_steps():
    model = small_model()
    model(torch.ones(4)).sum().backward()
    optimizer = Failing(model.parameters(), lr=0.1)
    failed = failure(optimizer.step)
    optimizer.fails = False
    optimizer.step()
    return [failed, model[0].weight.sum().item()]


@case
def failing_models():
    model = small_model()
    failed = failure(lambda: model(torch.ones(3)))
    return [failed, model(torch.ones(4)).item(), failure(lambda: torch.ones(1).backward())]


@case
def compiled_models():
    whole, half = small_model(), small_model()
    whole_compiled = torch.compile(whole, backend="aot_eager", fullgraph=True)
    half.compile(backend="aot_eager")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (whole, half)]
    return [train(whole, optimizers[0], whole_compiled), train(half, optimizers[1])]


@case
def compiled_functions():
    """Their modules run inside: the visible calls do not show the computing."""
    model = small_model()
    forward = torch.compile(lambda batch: model(batch), backend="aot_eager", fullgraph=True)
    data = TensorDataset(torch.arange(80.0).reshape(20, 4) / 80)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), forward, data)


@case
def compiled_optimizers():
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = torch.compile(optimizer.step, backend="aot_eager")
    model(torch.ones(4)).sum().backward()
    step()
    return model[0].weight.sum().item()


@case
def recomputed_forwards():
    from torch.utils.checkpoint import checkpoint

    model = small_model()
    inputs = torch.ones(2, 4, requires_grad=True)
    loss = checkpoint(model, inputs, use_reentrant=False).sum()
    loss.backward()
    (gradient,) = torch.autograd.grad(model(inputs).sum(), inputs)
    return [loss.item(), gradient.tolist()]


@case
def traced_models():
    model = small_model()
    scripted = torch.fx.symbolic_trace(model)
    return [scripted(torch.ones(4)).item(), torch.jit.trace(model, torch.ones(4))(torch.ones(4)).item(), str(scripted.graph)]


# ---- checkpoints -----------------------------------------------------------------------------------------------------


@case
def checkpoints():
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file, save_file

    state = {"weight": torch.ones(1000)}
    buffer = io.BytesIO()
    torch.save(state, "plain.pt")
    torch.save(state, buffer)
    with open("open.pt", "wb") as file:
        torch.save(state, file)
    save_file(state, "tensors.safetensors")
    dcp.save(state, checkpoint_id="sharded", no_dist=True)
    loaded = {"weight": torch.zeros(1000)}
    dcp.load(loaded, checkpoint_id="sharded", no_dist=True)
    sums = [torch.load("plain.pt")["weight"], torch.load(io.BytesIO(buffer.getvalue()))["weight"]]
    sums = [each.sum().item() for each in (*sums, load_file("tensors.safetensors")["weight"], loaded["weight"])]
    # The sharded one has a random number in its metadata.
    names = ["plain.pt", "open.pt", "tensors.safetensors", "sharded/__0_0.distcp"]
    return [sums, {name: os.path.getsize(name) for name in names}, failure(lambda: torch.load("absent.pt"))]


# ---- the hooks themselves --------------------------------------------------------------------------------------------


@case
def instrumented_anew():
    if not PLAIN:
        for name in [name for name in sys.modules if name.startswith("dliotrace") and name != "dliotrace._engine"]:
            del sys.modules[name]
        instrument()
    model = small_model()
    losses = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    return [losses, seen(DataLoader(Squares(), batch_size=6, num_workers=1, multiprocessing_context="spawn"))]


def instrument():
    import dliotrace.torch

    dliotrace.torch.instrument()
    dliotrace.torch.instrument()


def random_numbers():
    """Returns the state of all generators as one number."""
    state = [torch.get_rng_state().tolist(), random.getstate(), [str(part) for part in np.random.get_state()]]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def main():
    if not PLAIN:
        instrument()
    for run in CASES:
        torch.manual_seed(7)
        random.seed(7)
        np.random.seed(7)
        torch.compiler.reset()
        with span(run.__name__, cat="case"):
            result = run()
        print(json.dumps([run.__name__, result, random_numbers()]), flush=True)


if __name__ == "__main__":
    main()
