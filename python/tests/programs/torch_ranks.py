"""Two ranks train together: ``torch_ranks.py [plain]``. Rank 0 prints the result."""

import json
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import dliotrace.torch

RANKS, STEPS = 2, 4


def rank(number, rendezvous, plain):
    if not plain:
        dliotrace.torch.instrument()
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=number, world_size=RANKS)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.arange(16.0 * STEPS).reshape(4 * STEPS, 4) / 64
    losses = []
    for batch in DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False)):
        optimizer.zero_grad()
        loss = model(batch).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with model.no_sync():
        model(data).sum().backward()
    total = torch.tensor(losses).sum()
    dist.all_reduce(total)
    checkpoints(model, number)
    dist.barrier()
    if number == 0:
        print(json.dumps([losses, total.item(), model.module.weight.tolist()]), flush=True)
    dist.destroy_process_group()


def checkpoints(model, number):
    import torch.distributed.checkpoint as dcp

    state = {"model": model.module.state_dict(), f"own {number}": torch.ones(100)}
    dcp.save(state, checkpoint_id="ranks")
    dcp.load(state, checkpoint_id="ranks")


if __name__ == "__main__":
    import os

    torch.multiprocessing.spawn(rank, args=(os.path.abspath("rendezvous"), "plain" in sys.argv), nprocs=RANKS)
