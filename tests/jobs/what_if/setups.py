"""The jobs: what a training's loader does, and the changes that are made to it."""

import dataclasses
import math
import os
import random
import typing

from registry import Files

JOBS = {}


@dataclasses.dataclass(frozen=True)
class UnevenFiles(Files):
    """Files whose reads take exponentially distributed times. ``slow`` is their mean in microseconds."""

    def path(self, index):
        index %= self.count
        return os.path.join(self.name, f"{index:04}.read-{uneven(index, int(self.slow))}us")


def uneven(index, mean):
    """Returns an integer with an exponential distribution. The same index always gets the same one."""
    return int(random.Random(index).expovariate(1 / mean))


@dataclasses.dataclass(frozen=True)
class Setup:
    """A training job and its loader. Times are in seconds."""

    loader: str = "torch"
    workers: int = 2
    prefetch: int = 2
    persistent: bool = False
    in_order: bool = True
    passes: int = 2
    steps: int = 40
    # A batch: its samples, the file of each and the reads of a file, the CPU time of decoding a sample.
    samples: int = 4
    files: typing.Optional[Files] = None
    chunks: int = 1
    decode_s: float = 0.0
    decode_is_uneven: bool = False
    # The first reader decodes slower by this factor.
    slow_reader: float = 1.0
    # Time that a reader sleeps per batch, and for which it holds a lock that all of them need.
    nap_s: float = 0.0
    lock_s: float = 0.0
    start_up_s: float = 0.0
    # How much slower a read is for each further read in progress: 1 if readers share a bandwidth.
    slope: float = 0.0
    # What is delivered: "tensors" (this many), "pickled" or "shared" megabytes.
    delivers: str = "tensors"
    amount: int = 1
    # A step: on a device that the trainer waits for, on the CPU, in a wait that is not for data.
    compute_s: float = 0.0
    compute_cpu_s: float = 0.0
    own_wait_s: float = 0.0
    # Steps that the device takes before the trainer has to wait. More than 0: a GPU's driver is opened.
    device_queue: int = 0
    cores: int = 0
    # Changes: factors by which something is faster, and whether batches are delivered in place.
    storage_factor: float = 1.0
    decode_factor: float = 1.0
    compute_factor: float = 1.0
    in_place: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """A setup and the changes to make. ``refuses``: no change may be predicted; ``may_refuse``: a refusal is right, too."""

    name: str
    about: str
    setup: Setup
    changes: tuple
    refuses: bool = False
    may_refuse: bool = False


def job(name, about, changes, refuses=False, may_refuse=False, **setup):
    JOBS[name] = Job(name, about, Setup(**setup), tuple(changes.split()), refuses, may_refuse)


FIELDS = {
    "storage": ("storage_factor", float),
    "decode": ("decode_factor", float),
    "compute": ("compute_factor", float),
    "workers": ("workers", int),
    "prefetch": ("prefetch", int),
    "cores": ("cores", int),
    "persistent": ("persistent", lambda value: value == "1"),
    "order": ("in_order", lambda value: value != "any"),
    "handover": ("in_place", lambda value: value == "0"),
}


def changed(setup, change):
    """Returns the setup with a change, which is written as ``dlio-analyze --what-if`` reads it."""
    for part in filter(None, change.split(",")):
        key, value = part.split("=")
        field, parse = FIELDS[key]
        setup = dataclasses.replace(setup, **{field: parse(value)})
    assert setup.storage_factor > 0 and not math.isnan(setup.storage_factor)
    return setup


FAST = Files("fast", 200)


def slow(time):
    """Files whose reads take this long each: ``8ms``, ``300us``."""
    return Files(f"read-{time}", 200, slow=f"read-{time}")


job("storage", "reads that take 8 ms each",
    "storage=2 storage=inf workers=4 prefetch=8 compute=2 persistent=1", files=slow("8ms"), compute_s=0.010)
job("storage-bandwidth", "readers share a bandwidth: two reads at once take twice as long",
    "storage=2 storage=inf workers=4 prefetch=8", files=slow("5ms"), slope=1.0, compute_s=0.010)
job("storage-rising", "a read takes 30 % longer for each other read in progress",
    "storage=2 workers=4 order=any compute=2", files=slow("6ms"), slope=0.3, compute_s=0.010)
job("storage-one-reader", "one reader, whose reads take 5 ms",
    "workers=2 workers=4 storage=2 prefetch=8", files=slow("5ms"), workers=1, steps=30, compute_s=0.014)
job("decode", "decoding on both cores",
    "decode=2 storage=inf workers=4 prefetch=8 compute=2", files=FAST, decode_s=0.005, compute_s=0.006)
job("decode-one-reader", "one reader, which decodes",
    "workers=2 workers=3 decode=2 prefetch=8", files=FAST, workers=1, decode_s=0.005, steps=30, compute_s=0.008)
job("storage-and-decode", "reads of 5 ms and 2 ms of decoding per sample",
    "storage=2 storage=inf decode=2 workers=4 storage=2,decode=2", files=slow("5ms"), decode_s=0.002, compute_s=0.009)
job("uneven-decode", "the CPU time of a batch varies, a step takes as long as a batch needs on average",
    "order=any prefetch=8 storage=inf decode=2 workers=3", decode_is_uneven=True, decode_s=0.005, compute_s=0.013, files=FAST)
job("uneven-storage", "the time of a read varies, a step takes as long as a batch needs on average",
    "order=any prefetch=8 workers=4 storage=2", files=UnevenFiles("uneven", 200, slow="6000"), compute_s=0.013)
job("slow-reader", "the first reader needs three times as long",
    "order=any prefetch=8 storage=inf decode=2", slow_reader=3.0, decode_s=0.003, compute_s=0.013, files=FAST)
job("healthy", "batches are ready before they are needed",
    "storage=inf workers=4 decode=2 compute=2 prefetch=8", files=slow("2ms"), decode_s=0.001, compute_s=0.020)
job("pickled", "batches of 16 MB are pickled",
    "handover=0 workers=4 storage=inf compute=2", delivers="pickled", amount=16, compute_s=0.006, files=FAST)
job("shared-memory", "batches of 16 MB in shared memory",
    "workers=4 compute=2 storage=inf persistent=1", delivers="shared", amount=16, compute_s=0.010, files=FAST, steps=50)
job("restart", "5 passes, and readers that need 150 ms to start",
    "persistent=1 storage=inf workers=4 decode=2 prefetch=8", passes=5, steps=15, start_up_s=0.15, compute_s=0.012,
    files=FAST, decode_s=0.001)
job("cpu-training", "the training computes on the CPU, and readers decode",
    "decode=2 compute=2 workers=4", files=FAST, decode_s=0.003, compute_cpu_s=0.012)
job("lock", "readers hold a lock for 14 ms per batch",
    "workers=4 storage=inf decode=2 compute=2", lock_s=0.014, nap_s=0.004, compute_s=0.008, files=FAST)
job("sleeping", "readers sleep for 30 ms per batch",
    "storage=inf decode=2 workers=4 compute=2", nap_s=0.030, compute_s=0.010, files=FAST)
job("small-reads", "12 reads of 600 us per sample",
    "storage=2 workers=4 decode=2 prefetch=8", files=slow("600us"), chunks=12, decode_s=0.001, compute_s=0.010)
job("gil", "batches of 24 tensors from readers that hold the GIL",
    "decode=2 workers=4 storage=inf compute=2", amount=24, decode_s=0.003, compute_s=0.010, files=FAST)
job("processes-storage", "plain processes and queues, reads of 8 ms",
    "storage=2 workers=4 prefetch=4 compute=2", loader="processes", files=slow("8ms"), compute_s=0.010)
job("processes-decode", "plain processes and queues, decoding",
    "decode=2 storage=inf workers=3 persistent=1", loader="processes", files=FAST, decode_s=0.005, compute_s=0.007)
job("own-waits", "each step waits for a thread of the training for 15 ms",
    "storage=inf workers=4 decode=2 prefetch=8 compute=2", files=slow("2ms"), compute_s=0.008, own_wait_s=0.015)
job("prefetch-one", "uneven reads, and each reader is one batch ahead",
    "prefetch=4 storage=2 order=any workers=4", prefetch=1, files=UnevenFiles("uneven", 200, slow="6000"), compute_s=0.012)
job("persistent", "readers that are kept for 4 passes",
    "storage=2 workers=4 prefetch=1 decode=2", persistent=True, passes=4, steps=20, files=slow("6ms"), decode_s=0.001, compute_s=0.008)
job("one-core", "two readers decode on one core",
    "cores=2 decode=2 workers=1", files=FAST, decode_s=0.004, compute_s=0.010, cores=1, steps=25)
job("no-workers", "the training reads its data itself",
    "storage=2 decode=2 compute=2", may_refuse=True, workers=0, files=slow("4ms"), decode_s=0.001, compute_s=0.010, steps=30)
job("threads", "two threads read",
    "storage=2 workers=4 compute=2", may_refuse=True, loader="threads", files=slow("8ms"), compute_s=0.010)
job("device", "a device that computes by itself, four steps behind, and whose time is not recorded",
    "decode=2 storage=2 workers=4 compute=2", refuses=True, device_queue=4, decode_s=0.003, compute_s=0.016, files=slow("2ms"))
job("processes-device", "plain processes and queues, and a device that computes by itself",
    "storage=2 workers=4", refuses=True, loader="processes", device_queue=4, compute_s=0.012, files=slow("5ms"))
