"""Jobs whose cause is the machine: what they may use of it, and who else uses it. Control groups need root and controllers of
version 1, or a delegated group of version 2."""

import contextlib
import ctypes
import functools
import os
import subprocess

from batches import Samples, of_workers, train_model
from loaders import Loader, train
from processes import FAST, BusyProcesses, on_cpu_0, samples
from registry import Files, job

WORKING_SET = Files("working_set", 40, 8 << 20)


def own_group(controller):
    """The folder of the calling process's control group: with files of version 1, or of version 2. None if it is not writable."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    for _, names, path in lines:
        # Version 2 has another name for it.
        controller = "io" if not names and controller == "blkio" else controller
        root = f"/sys/fs/cgroup/{controller}" if controller in names.split(",") else "/sys/fs/cgroup" if not names else ""
        folder = root + path.rstrip("/")
        if root and os.access(os.path.join(folder, "cgroup.procs"), os.W_OK):
            if names or controller in read(os.path.join(folder, "cgroup.subtree_control"), ""):
                return folder
    return None


def read(path, otherwise):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return otherwise


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@contextlib.contextmanager
def limited(controller, **limits):
    """Runs in a control group of its own: ``limits`` are texts by the names of files, of both versions."""
    parent = own_group(controller)
    group = os.path.join(parent, f"dlio-test-{os.getpid()}")
    os.mkdir(group)
    try:
        for name, text in limits.items():
            path = os.path.join(group, name.replace("__", "."))
            if os.path.exists(path):
                write(path, text)
        write(os.path.join(group, "cgroup.procs"), str(os.getpid()))
        yield
    finally:
        write(os.path.join(parent, "cgroup.procs"), str(os.getpid()))
        os.rmdir(group)


def quota(cpus):
    """Sets a quota in CPUs."""
    us = str(int(cpus * 100_000))
    return limited("cpu", cpu__cfs_quota_us=us, cpu__max=f"{us} 100000")


@job("no-cpu", FAST, group="cpu", finding="cpu-quota")
def cpu_quota():
    """2 workers decode under a quota of 0.6 CPUs | both CPUs of the machine are idle half of the time"""
    with quota(0.6):
        return train(Loader(samples(FAST, decode=0.003), 240, workers=2), 0.004)


@job("cpu", FAST, also=("no-cpu",), group="cpu")
def cpu_quota_that_suffices():
    """2 workers decode under a quota of 50 CPUs | a quota, and not the cause"""
    with quota(50):
        return train(Loader(samples(FAST, decode=0.010), 40, workers=2), 0.010)


@job("no-cpu", FAST, group="cpu", finding="noisy-neighbor", says=("noisy-neighbor: .*The CPU weight of their control group is 1",))
def low_cpu_weight():
    """1 worker of a control group with a low CPU weight shares its CPU with one busy process outside the trace | the neighbor alone would
    leave it half of the CPU"""
    others = BusyProcesses(1)
    try:
        # The default is 1024 in version 1, and 100 in version 2.
        with limited("cpu", cpu__shares="102", cpu__weight="10"):
            return train(Loader(on_cpu_0(samples(FAST, decode=0.002)), 40, workers=1), 0.004)
    finally:
        others.kill()


def multiply(index):
    """Work that a library divides among its threads."""
    import torch

    data = torch.full((700, 700), float(index))
    return (data @ data).sum()


def use_threads(number):
    import torch

    torch.set_num_threads(number)


@job("no-cpu", torch=True, finding="too-many-threads")
def torch_threads_in_each_worker():
    """4 workers with a pool of 8 threads each, more than there are CPUs | each worker alone would be well advised"""
    workers_start = functools.partial(lambda number, worker: use_threads(number), 8)
    loader = of_workers(Samples(multiply, 240, "no-cpu"), "no-cpu", workers=4, worker_init_fn=workers_start)
    return train_model(loader, 0.004)


def forget(path):
    """Drops a file from the page cache: cached pages count against the group that read them first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cold_reads():
    """Makes batches from the working set, which is not cached."""
    for index in range(WORKING_SET.count):
        forget(WORKING_SET.path(index))

    def make(index, work):
        with work.at("storage"):
            WORKING_SET.read(index)

    return make


@job("storage", WORKING_SET, group="memory", finding="cache-thrash")
def memory_limit():
    """336 MB read five times under a memory limit of 150 MB | without the limit they would fit"""
    make, limit = cold_reads(), str(150 << 20)
    with limited("memory", memory__limit_in_bytes=limit, memory__max=limit):
        return train(Loader(make, 5 * WORKING_SET.count, workers=1), 0.001)


@job("none", WORKING_SET, also=("storage", "cpu"), group="memory", never=("thrash",))
def memory_limit_that_suffices():
    """336 MB read five times under a memory limit of 2 GB | only the first epoch reads the device"""
    make, limit = cold_reads(), str(2 << 30)
    with limited("memory", memory__limit_in_bytes=limit, memory__max=limit):
        return train(Loader(make, 5 * WORKING_SET.count, workers=1), 0.020)


def read_limit(rate):
    """Limits reads of the device with the data, in bytes per second."""
    device = os.stat(WORKING_SET.path(0)).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    return limited("blkio", **{"blkio__throttle__read_bps_device": f"{number} {rate}", "io__max": f"{number} rbps={rate}"})


@job("storage", WORKING_SET, group="blkio", finding="io-limit")
def device_limit():
    """A limit of 60 MB/s of I/O for the job's control group | the device has little to do"""
    make = cold_reads()
    with read_limit(60_000_000):
        return train(Loader(make, 20, workers=2), 0.020)


@job("storage", WORKING_SET, also=("cpu",), group="blkio", never=("I/O limit",))
def device_limit_that_suffices():
    """A limit of 60 GB/s of I/O for the job's control group | a limit, and not the cause"""
    make = cold_reads()
    with read_limit(60_000_000_000):
        return train(Loader(make, 20, workers=2), 0.020)


def mount_shm(size):
    """Mounts a small /dev/shm, which only this process and its children see."""
    new_mounts = 0x20000
    if ctypes.CDLL(None, use_errno=True).unshare(new_mounts) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", "/dev/shm"], check=True)


def blocks_in_shm():
    """A maker that allocates a block of 1 MB for each of the last eight batches. If there is no space, it goes on without one."""
    make, blocks = samples(FAST), {}

    def make_block(index, work):
        name = f"/dev/shm/psm_block_{index % 8}"
        if name not in blocks:
            blocks[name] = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
            with contextlib.suppress(OSError):
                os.posix_fallocate(blocks[name], 0, 1 << 20)
        return make(index, work)

    return make_block


@job("none", FAST, mounts=True, finding="shm-small", says=(r"shm-small: /dev/shm \(4\.\d+ MB\)",))
def small_shm():
    """8 MB of batches for a /dev/shm of 4 MB | nothing waits for it, calls fail"""
    mount_shm("4m")
    return train(Loader(blocks_in_shm(), 40), 0.05)


@job("none", FAST, mounts=True, never=("small shm",))
def shm_that_suffices():
    """8 MB of batches for a /dev/shm of 16 MB | no call fails"""
    mount_shm("16m")
    return train(Loader(blocks_in_shm(), 40), 0.05)
