"""Jobs whose readers are threads of the training's own process."""

import concurrent.futures
import queue
import threading
import time

from clock import Batch, Trainer, Work, compute_for
from loaders import train
from processes import FAST, SLOW, samples
from registry import job


def train_with_threads(make, steps, step, threads=2, rest="no-cpu", of_queue=lambda: queue.Queue(4)):
    """Threads that know from the start what to make, and one queue."""
    batches, trainer = of_queue(), Trainer()

    def reader(thread):
        work = Work(rest)
        for index in range(thread, steps, threads):
            work.begin()
            content = make(index, work)
            batches.put(Batch(content, work.end()))

    readers = [threading.Thread(target=reader, args=(thread,)) for thread in range(threads)]
    for thread in readers:
        thread.start()
    train((batches.get() for _ in range(steps)), step, trainer)
    for thread in readers:
        thread.join()
    return trainer


@job("storage", SLOW)
def threads_slow_files():
    """2 threads read slow files, `queue.Queue` | no process hands anything over"""
    return train_with_threads(samples(SLOW), 40, 0.018)


@job("storage", SLOW)
def threads_simple_queue():
    """2 threads read slow files, `queue.SimpleQueue` | parking lot from Python 3.13 on"""
    return train_with_threads(samples(SLOW), 40, 0.018, of_queue=queue.SimpleQueue)


@job("storage", SLOW)
def threads_executor():
    """slow files, `ThreadPoolExecutor.map` | waits for futures, each with a lock of its own"""
    local = threading.local()

    def make(index):
        local.work = getattr(local, "work", None) or Work()
        local.work.begin()
        content = samples(SLOW)(index, local.work)
        return Batch(content, local.work.end())

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return train(pool.map(make, range(40)), 0.018)


@job("storage", SLOW)
def prefetch_thread():
    """one thread reads one batch ahead | the smallest loader there is"""
    return train_with_threads(samples(SLOW, number=2), 40, 0.018, threads=1, of_queue=lambda: queue.Queue(1))


@job("gil")
def threads_decode():
    """2 threads decode data in memory in Python | they wait for one another's GIL; processes would help"""

    def make(index, work):
        compute_for(0.03)
        return index

    return train_with_threads(make, 40, 0.005, rest="gil")


@job("lock", FAST, also=("sleep",))
def threads_locked_reads():
    """3 threads read and sleep under one `threading.Lock` | the lock's, not storage"""
    lock = threading.Lock()

    def make(index, work):
        with work.at("lock"), lock:
            time.sleep(0.02)
        return samples(FAST)(index, work)

    return train_with_threads(make, 60, 0.006, threads=3)


@job("none", FAST)
def threads_healthy():
    """2 threads read fast files, batches come in time | waits of the readers for room in the queue"""
    return train_with_threads(samples(FAST), 60, 0.04)
