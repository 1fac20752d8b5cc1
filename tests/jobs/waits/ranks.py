"""Jobs of two ranks that wait for each other at every step."""

import json
import multiprocessing
import os
import sys

from batches import Samples, of_workers, started
from clock import Trainer, summary
from loaders import Loader
from processes import FAST, SLOW, samples
from registry import job


class Ranks:
    """The sums over ranks."""

    def __init__(self, results):
        self.results = results

    def result(self):
        causes = {}
        for result in self.results:
            for cause, seconds in result["causes"].items():
                causes[cause] = causes.get(cause, 0) + seconds
        return summary(*(sum(result[name] for result in self.results) for name in ("trained_s", "waited_s")), causes)


def train_ranks(train_rank):
    """Runs two ranks; ``train_rank(rank)`` returns a Trainer."""
    results = multiprocessing.SimpleQueue()

    def run(rank):
        os.environ["RANK"] = str(rank)
        results.put(train_rank(rank).result())

    ranks = [multiprocessing.Process(target=run, args=(rank,)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    made = [results.get() for _ in ranks]
    for rank in ranks:
        rank.join()
    return Ranks(made)


def train_in_step(files, meet, steps=40, step=0.015):
    loader, trainer = Loader(samples(files), steps), Trainer()
    for _ in trainer.fetch(loader):
        trainer.compute(step)
        with trainer.waiting_for("other-rank"):
            meet()
    loader.close()
    return trainer


@job("storage", SLOW, FAST)
def ranks_one_slow():
    """2 ranks meet at a barrier, the files of rank 1 are slow | rank 0 waits for rank 1 and not for its own readers"""
    barrier = multiprocessing.Barrier(2)
    return train_ranks(lambda rank: train_in_step([FAST, SLOW][rank], barrier.wait))


@job("none", FAST)
def ranks_healthy():
    """2 ranks meet at a barrier, batches come in time | waits for each other are short"""
    barrier = multiprocessing.Barrier(2)
    return train_ranks(lambda rank: train_in_step(FAST, barrier.wait, step=0.03))


@job("storage", SLOW, FAST, torch=True)
def ranks_gloo_one_slow():
    """2 ranks of gloo, the files of rank 1 are slow | a loop thread receives what rank 0 waits for"""
    import tempfile

    store = os.path.join(tempfile.mkdtemp(), "store")

    def rank_of_gloo(rank):
        import torch
        import torch.distributed

        torch.distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=2)
        trainer = train_in_step([FAST, SLOW][rank], lambda: torch.distributed.all_reduce(torch.ones(1000)))
        torch.distributed.destroy_process_group()
        return trainer

    return train_ranks(rank_of_gloo)


def train_spawned(rank, folder):
    """A rank that knows its number only from its argument, and tells its environment."""
    import torch.distributed

    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    torch.distributed.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    data = Samples(lambda index: len(SLOW.read(index)), 320, "storage")
    loader = of_workers(data, "storage", workers=2, multiprocessing_context="fork")
    trainer = Trainer()
    for _ in trainer.fetch(started(loader, trainer)):
        trainer.compute(0.02)
        with trainer.waiting_for("other-rank"):
            torch.distributed.all_reduce(torch.ones(1000))
    with open(os.path.join(folder, f"{rank}.json"), "w") as file:
        json.dump(trainer.result(), file)
    torch.distributed.destroy_process_group()


@job("storage", SLOW, torch=True)
def ranks_spawned():
    """2 ranks by `torch.multiprocessing.spawn`, each with 2 workers of PyTorch's loader | workers are not ranks"""
    import tempfile

    import torch.multiprocessing

    folder = tempfile.mkdtemp()
    torch.multiprocessing.spawn(train_spawned, (folder,), 2)
    made = []
    for rank in range(2):
        with open(os.path.join(folder, f"{rank}.json")) as file:
            made.append(json.load(file))
    return Ranks(made)


@job("storage", SLOW, FAST, torch=True, spans=True, also=("other-rank",))
def torchrun_one_slow():
    """(spans) torchrun, 2 ranks of DistributedDataParallel, the files of rank 1 are slow |
    rank 0 waits within its backward"""
    if "RANK" not in os.environ:
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        os.execv(sys.executable, [sys.executable, *torchrun, *sys.argv])
    import torch
    import torch.distributed

    torch.distributed.init_process_group("gloo")
    files = SLOW if os.environ["RANK"] == "1" else FAST
    loader = of_workers(Samples(lambda index: len(files.read(index)), 160, "storage"), "storage", workers=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    torch.distributed.barrier()
    trainer = Trainer()
    for _ in trainer.fetch(started(loader, trainer)):
        loss = model(torch.ones(1, 16)).sum()
        trainer.compute(0.02)
        with trainer.waiting_for("other-rank"):
            loss.backward()
        optimizer.step()
    made = [None, None]
    torch.distributed.all_gather_object(made, trainer.result())
    torch.distributed.destroy_process_group()
    if os.environ["RANK"] == "1":
        sys.exit()
    return Ranks(made)
