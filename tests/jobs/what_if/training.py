"""Runs a job of ``setups.py`` in the current directory, where its data are.

    training.py NAME [CHANGE]
    training.py NAME --series

The last line that it prints is one of JSON: the time of all passes without imports and setup, and the wait for batches in it.
With ``--series`` it runs the job once per change that it reads from the standard input, each time in a process of its own, which
starts with PyTorch imported.

``WHAT_IF_SPANS=1`` adds spans to loaders that are not PyTorch's.
"""

import collections
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import mmap
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "waits")]
from clock import compute_for  # noqa: E402
from loaders import Loader  # noqa: E402
from setups import JOBS, changed, uneven  # noqa: E402

MEGABYTE = 1 << 20
now = time.perf_counter


# ---- batches ---------------------------------------------------------------------------------------------------------


class Batches:
    """A data set whose items are batches."""

    def __init__(self, setup):
        self.setup, self.reader = setup, 0
        self.source = bytes(setup.amount * MEGABYTE) if setup.delivers != "tensors" else None
        self.slots = self.make_slots() if setup.in_place else None

    def make_slots(self):
        """Makes memory that all readers share with the training, one slot for each batch in flight."""
        number = self.setup.workers * self.setup.prefetch + 1
        slots = [mmap.mmap(-1, len(self.source)) for _ in range(number)]
        for slot in slots:
            slot[:] = self.source
        return slots

    def __len__(self):
        return self.setup.steps

    def start(self, reader):
        """Starts a reader."""
        self.reader = reader
        time.sleep(self.setup.start_up_s)

    def __getitem__(self, index):
        if index >= self.setup.steps:
            raise IndexError(index)
        self.hold_lock()
        time.sleep(self.setup.nap_s)
        for sample in range(index * self.setup.samples, (index + 1) * self.setup.samples):
            self.read(sample)
            self.decode(sample)
        return self.content(index)

    def hold_lock(self):
        if self.setup.lock_s:
            with open("lock", "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                time.sleep(self.setup.lock_s)

    def read(self, sample):
        files, chunks = self.setup.files, self.setup.chunks
        if not files:
            return
        if chunks == 1:
            files.read(sample)
            return
        with open(files.path(sample), "rb", buffering=0) as file:
            for _ in range(chunks):
                file.read(files.size // chunks)

    def decode(self, sample):
        seconds = self.setup.decode_s / self.setup.decode_factor
        if self.setup.decode_is_uneven:
            # All samples of a batch are alike: a batch is uneven, not only a sample.
            seconds *= uneven(sample // self.setup.samples, 1000) / 1000
        if self.reader == 0:
            seconds *= self.setup.slow_reader
        if seconds:
            compute_for(seconds)

    def content(self, index):
        import torch

        if self.slots:
            slot = index % len(self.slots)
            self.slots[slot][:] = self.source
            return torch.tensor([slot])
        if self.setup.delivers == "pickled":
            return bytearray(self.source)
        if self.setup.delivers == "shared":
            return torch.frombuffer(bytearray(self.source), dtype=torch.uint8)
        return [torch.full((64,), float(index)) for _ in range(self.setup.amount)]


# ---- loaders ---------------------------------------------------------------------------------------------------------


class Processes:
    """Plain processes, which start again in each pass unless they are persistent."""

    def __init__(self, batches, setup):
        self.batches, self.setup, self.loader = batches, setup, None

    def make(self, index, _work):
        # Without PyTorch: its tensors would pass through its own queues.
        for sample in range(index * self.setup.samples, (index + 1) * self.setup.samples):
            self.batches.read(sample)
            self.batches.decode(sample)
        return [float(index)] * 64

    def __iter__(self):
        if not self.loader:
            self.loader = Loader(self.make, self.setup.steps, self.setup.workers, self.setup.prefetch, prepare=self.setup.start_up_s)
        return self.passed()

    def passed(self):
        for batch in self.loader:
            yield batch.content
        if not self.setup.persistent:
            self.close()

    def close(self):
        if self.loader:
            self.loader.close()
        self.loader = None


class Threads:
    """Threads of the training's process, and batches in order."""

    def __init__(self, batches, setup):
        self.batches, self.setup = batches, setup

    def __iter__(self):
        ahead, steps = self.setup.workers * self.setup.prefetch, self.setup.steps
        with concurrent.futures.ThreadPoolExecutor(self.setup.workers) as pool:
            pending = collections.deque(pool.submit(self.batches.__getitem__, index) for index in range(min(ahead, steps)))
            for index in range(ahead, steps + ahead):
                yield pending.popleft().result()
                if index < steps:
                    pending.append(pool.submit(self.batches.__getitem__, index))


def torch_loader(batches, setup):
    from torch.utils.data import DataLoader

    options = {}
    if setup.workers:
        options = {
            "prefetch_factor": setup.prefetch, "persistent_workers": setup.persistent, "in_order": setup.in_order,
            "worker_init_fn": batches.start,
        }
    return DataLoader(batches, batch_size=None, collate_fn=unchanged, num_workers=setup.workers, **options)


def unchanged(batch):
    """PyTorch would convert the bytes of a batch one by one."""
    return batch


LOADERS = {"torch": torch_loader, "processes": Processes, "threads": Threads}


# ---- the training ----------------------------------------------------------------------------------------------------


class Device:
    """Where steps compute. The trainer waits for each, or only when the device's queue is full."""

    def __init__(self, setup):
        self.setup, self.ends, self.free = setup, collections.deque(), 0.0
        if setup.device_queue:
            self.driver = open("/dev/nvidia-uvm", "rb", buffering=0)

    def compute(self):
        seconds = self.setup.compute_s / self.setup.compute_factor
        if self.setup.device_queue:
            self.free = max(self.free, now()) + seconds
            self.ends.append(self.free)
            if len(self.ends) <= self.setup.device_queue:
                return
            seconds = self.ends.popleft() - now()
        if seconds > 0:
            time.sleep(seconds)
        if self.setup.compute_cpu_s:
            compute_for(self.setup.compute_cpu_s / self.setup.compute_factor)

    def synchronize(self):
        time.sleep(max(self.free - now(), 0))


def step_of(setup, device):
    """Returns the function that trains with a batch."""
    wait_for = concurrent.futures.ThreadPoolExecutor(1) if setup.own_wait_s else None
    learn = learn_plainly(device) if setup.loader == "processes" else learn_with_torch(device)

    def step(batch):
        if wait_for:
            wait_for.submit(time.sleep, setup.own_wait_s).result()
        learn(batch)

    return step


def learn_plainly(device):
    def learn(_batch):
        device.compute()

    if os.environ.get("WHAT_IF_SPANS"):
        from dliotrace import ai

        return ai.compute.compute(learn)
    return learn


def learn_with_torch(device):
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, _batch):
            device.compute()
            return (self.weight * 2.0).sum()

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def learn(batch):
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()

    return learn


def passes_of(loader, setup):
    """Yields a function per pass that starts it."""
    for epoch in range(setup.passes):
        if setup.loader == "torch" or not os.environ.get("WHAT_IF_SPANS"):
            yield functools.partial(iter, loader)
        else:
            yield functools.partial(start_with_spans, loader, epoch)


def start_with_spans(loader, epoch):
    from dliotrace import ai, traced_iter

    with ai.data.start(epoch=epoch):
        batches = iter(loader)
    return traced_iter(batches, ai.data.fetch, epoch=epoch)


def train(setup):
    """Trains. Returns the seconds of it, and of the wait for batches."""
    if setup.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: setup.cores])
    device = Device(setup)
    loader, step, waited = LOADERS[setup.loader](Batches(setup), setup), step_of(setup, device), 0.0
    others, start = cpu_of_others(), now()
    for begin in passes_of(loader, setup):
        asked = now()
        batches = begin()
        waited += now() - asked
        while True:
            asked = now()
            batch = next(batches, None)
            waited += now() - asked
            if batch is None:
                break
            step(batch)
    device.synchronize()
    seconds = now() - start
    del batches
    getattr(loader, "close", lambda: None)()
    return {"trained_s": seconds, "waited_s": waited, "others": (cpu_of_others() - others) / (now() - start)}


def cpu_of_others():
    """Returns the CPU seconds that all of the host has used, without this process and its ended children."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    busy = sum(fields[:3]) + sum(fields[5:8])
    own = os.times()
    return busy / os.sysconf("SC_CLK_TCK") - own.user - own.system - own.children_user - own.children_system


def run(name, change):
    setup = changed(JOBS[name].setup, change)
    os.environ["DLIO_SLOW_FACTOR"] = str(setup.storage_factor)
    if setup.slope:
        os.environ["DLIO_SLOW_SLOPE"] = str(setup.slope)
    if setup.loader != "processes":
        import torch

        torch.set_num_threads(1)
    print(json.dumps(train(setup)), flush=True)


def run_series(name):
    """Runs the job with each change that a line of the standard input names."""
    if JOBS[name].setup.loader != "processes":
        import torch.utils.data  # noqa: F401
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run(name, line.strip())
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            print("null", flush=True)


if __name__ == "__main__":
    if sys.argv[2:] == ["--series"]:
        run_series(sys.argv[1])
    else:
        run(sys.argv[1], "".join(sys.argv[2:]))
