"""Jobs whose readers run under other people's frameworks, or in ways that grew by themselves."""

import concurrent.futures
import multiprocessing
import os
import pickle
import queue
import socket
import threading
import time
import zlib
from multiprocessing import shared_memory

from batches import Samples, of_workers, own, started, stream, train_model
from clock import Batch, Trainer, Work, compute_for
from formats import decoded, jpeg
from loaders import Loader, train
from network import server
from processes import FAST, SLOW, samples
from registry import Files, job

TEN = Files("ten", 160, slow="read-10ms")
SLOW_SAMPLES = Samples(lambda index: len(SLOW.read(index)), 160, "storage")


def decode_fast_file(index):
    compute_for(0.008)
    return len(FAST.read(index))


# ---- Lightning -----------------------------------------------------------------------------------------------------------


def train_lightning(loader, step):
    """Trains by a Lightning Trainer; ``step(trainer)`` is what a step does."""
    import torch
    from lightning import LightningModule
    from lightning import Trainer as Lightning

    trainer = Trainer()

    class Batches:
        """The iterable for Lightning."""

        def __iter__(self):
            return trainer.fetch(started(loader, trainer))

    class Model(LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(512, 512)

        def training_step(self, batch, number):
            step(trainer)
            return self.layer(torch.ones(1, 512)).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    Lightning(max_epochs=1, accelerator="cpu", **dict.fromkeys(off, False)).fit(Model(), Batches())
    return trainer


@job("storage", SLOW, torch=True, needs=("lightning",), spans=True)
def lightning_slow_files():
    """(spans) Lightning, slow files | hooks and closures between the loader and the step"""
    return train_lightning(of_workers(SLOW_SAMPLES, "storage"), lambda trainer: trainer.compute(0.018))


@job("none", FAST, torch=True, needs=("lightning",))
def lightning_healthy():
    """Lightning, a training run that computes on the CPU, batches come in time |
    threads of the backward, CPU time that is not a reader's"""

    def step(trainer):
        compute_for(0.08)
        trainer.compute(0)

    data = Samples(lambda index: len(FAST.read(index)), 160, "no-cpu")
    return train_lightning(of_workers(data, "no-cpu"), step)


# ---- joblib --------------------------------------------------------------------------------------------------------------


def unpack(index):
    """A worker of joblib makes a batch."""
    work = own("no-cpu")
    work.sample()
    content = zlib.compress(FAST.read(index), 1)
    while time.thread_time() - work.start_cpu < 0.03:
        zlib.decompress(content)
    return Batch(len(content), work.batch())


def large(index):
    work = own("no-cpu")
    work.sample()
    content = FAST.read(index) * 384
    return Batch(content, work.batch())


def train_joblib(make, steps, step):
    import joblib

    pool = joblib.Parallel(n_jobs=2, return_as="generator", pre_dispatch=4)
    return train(pool(joblib.delayed(make)(index) for index in range(steps)), step)


@job("cpu", FAST, torch=True, needs=("joblib",))
def joblib_decode():
    """joblib's processes, its generator | a manager thread, a feeder thread and a callback thread deliver"""
    return train_joblib(unpack, 100, 0.008)


@job("handover", FAST, torch=True, needs=("joblib",), never=("more readers",))
def joblib_large_results():
    """joblib, batches of 24 MB | they are pickled through a pipe"""
    return train_joblib(large, 60, 0.01)


# ---- servers -------------------------------------------------------------------------------------------------------------


@job("network", torch=True, needs=("aiohttp",), spans=True)
def aiohttp_worker():
    """(spans) one worker requests 8 samples at a time with aiohttp |
    an event loop in the worker, `epoll` and no blocking read"""

    async def get(session, port, sample):
        async with session.get(f"http://127.0.0.1:{port}/{sample}") as response:
            return len(await response.read())

    def contents(port):
        import asyncio

        import aiohttp

        async def session():
            return aiohttp.ClientSession()

        with asyncio.Runner() as runner:
            client = runner.run(session())

            async def gather(first):
                return await asyncio.gather(*(get(client, port, sample) for sample in range(first, first + 8)))

            for first in range(0, 320, 8):
                yield from runner.run(gather(first))
            runner.run(client.close())

    with server(0.04) as port:
        return train_model(of_workers(stream(lambda: contents(port), "network"), "network", batch=8, workers=1), 0.02)


def serve(listener):
    """Runs a server of one thread, which unpacks the requests of all clients."""
    import selectors

    waiting, packed = selectors.DefaultSelector(), zlib.compress(bytes(range(256)) * 4096, 1)
    waiting.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is listener:
                waiting.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            asked = key.fileobj.recv(64)
            if not asked:
                waiting.unregister(key.fileobj)
                key.fileobj.close()
                continue
            compute_for(0.005)
            key.fileobj.sendall(zlib.decompress(packed)[:4096])


@job("cpu", torch=True, needs=("numpy",), also=("network",))
def traced_feature_server():
    """2 workers ask a server of one thread for features, through a Unix socket; it is traced |
    the CPU time is another process's"""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("features.socket")
    listener.listen()
    process = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
    process.start()
    clients = {}

    def load(index):
        client = clients.get(os.getpid())
        if not client:
            client = clients[os.getpid()] = socket.socket(socket.AF_UNIX)
            client.connect("features.socket")
        client.sendall(b"%d" % index)
        left = 4096
        while left:
            left -= len(client.recv(left))
        return index

    # The server is busy all the time, so waiting for it is waiting for its CPU time.
    trainer = train_model(of_workers(Samples(load, 240, "cpu"), "cpu"), 0.01)
    process.terminate()
    os.unlink("features.socket")
    return trainer


# ---- memory and semaphores -----------------------------------------------------------------------------------------------


@job("storage", SLOW, torch=True, needs=("posix_ipc",))
def posix_ipc_ring():
    """a reader process, a ring in shared memory, named semaphores of posix_ipc | semaphores are files that both map"""
    import posix_ipc

    room, steps, slots = 1 << 17, 50, 3
    memory = shared_memory.SharedMemory(create=True, size=room * slots)
    names = [f"/dlio-job-{os.getpid()}-{kind}" for kind in ("free", "full")]
    free, full = (posix_ipc.Semaphore(name, posix_ipc.O_CREX, initial_value=value) for name, value in zip(names, (slots, 0)))

    def reader():
        work = Work()
        for index in range(steps):
            work.begin()
            made = pickle.dumps((samples(SLOW, number=2)(index, work), work.end()))
            free.acquire()
            memory.buf[index % slots * room : index % slots * room + len(made)] = made
            full.release()

    def batches():
        for index in range(steps):
            full.acquire()
            batch = Batch(*pickle.loads(memory.buf[index % slots * room : (index % slots + 1) * room]))
            free.release()
            yield batch

    process = multiprocessing.get_context("fork").Process(target=reader)
    trainer = Trainer()
    process.start()
    train(batches(), 0.018, trainer)
    process.join()
    for semaphore in (free, full):
        semaphore.unlink()
    memory.close()
    memory.unlink()
    return trainer


@job("storage", SLOW)
def processes_and_a_thread():
    """processes read slow files, a thread of the trainer copies their batches |
    a thread between the readers and the training"""
    loader, ready = Loader(samples(SLOW), 40), queue.Queue(2)

    def copy():
        for batch in loader:
            ready.put(Batch(bytes(bytearray(1 << 20)), batch.record))

    thread = threading.Thread(target=copy)
    trainer = Trainer()
    thread.start()
    train((ready.get() for _ in range(40)), 0.018, trainer)
    thread.join()
    loader.close()
    return trainer


@job("gil", torch=True, needs=("numpy",), also=("cpu",), spans=True)
def threads_in_a_worker():
    """(spans) one worker decodes in 4 threads, in Python |
    its threads take turns: more threads would not help, more processes would"""
    pools = {}

    def decode(_):
        start, cpu = time.perf_counter(), time.thread_time()
        compute_for(0.006)
        return time.thread_time() - cpu, time.perf_counter() - start

    def contents():
        for index in range(60):
            pool = pools.setdefault(os.getpid(), concurrent.futures.ThreadPoolExecutor(4))
            work = own("gil")
            begun = time.perf_counter()
            cpu, wall = (sum(times) for times in zip(*pool.map(decode, range(4))))
            # The time of its threads is divided in proportion.
            work.parts["cpu"] += (time.perf_counter() - begun) * cpu / wall
            yield index

    return train_model(of_workers(stream(contents, "gil"), "gil", batch=1, workers=1), 0.008)


# ---- PyTorch, with spans -------------------------------------------------------------------------------------------------


@job("storage", SLOW, torch=True, spans=True)
def no_workers_slow_files_spans():
    """(spans) DataLoader with `num_workers=0`, slow files | no wait for another thread"""
    return train_model(of_workers(SLOW_SAMPLES, "storage", batch=2, workers=0), 0.03)


@job("cpu", torch=True, needs=("PIL",), spans=True)
def no_workers_jpeg_spans():
    """(spans) DataLoader with `num_workers=0`, pictures are decoded, steps compute on the CPU |
    both are CPU time of one thread"""
    picture = jpeg(0)
    loader = of_workers(Samples(lambda _: decoded(picture), 160, "no-cpu"), "no-cpu", workers=0)
    import torch

    model = torch.nn.Linear(512, 512)
    trainer = Trainer()
    for _ in trainer.fetch(started(loader, trainer)):
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            model(torch.ones(64, 512)).sum().backward()
        trainer.compute(0)
    return trainer


@job("handover", FAST, torch=True, spans=True, never=("more readers",))
def pickled_records_spans():
    """(spans) batches are lists of 40,000 small records of Python |
    pickled by a thread of the worker, unpickled by the training"""

    def load(index):
        content = FAST.read(index)
        return [{"at": at, "value": content[at]} for at in range(20_000)]

    loader = of_workers(Samples(load, 80, "no-cpu"), "no-cpu", batch=2, combine=list)
    return train_model(loader, 0.02)


class ReadAndDecode:
    """Slow files that are decoded, for workers that get their data set by a pickle."""

    def __len__(self):
        return 160

    def __getitem__(self, index):
        work = own("no-cpu")
        work.sample()
        with work.at("storage"):
            content = TEN.read(index)
        compute_for(0.006)
        return len(content)


@job("storage", TEN, torch=True, spans=True, also=("cpu",))
def forkserver_read_and_decode():
    """(spans) workers of a fork server, which has imported PyTorch, read for 10 ms and decode for 6 ms per sample |
    both take part"""
    multiprocessing.set_forkserver_preload(["torch", "frameworks"])
    server = multiprocessing.get_context("forkserver")
    first = server.Process(target=os.getpid)
    first.start()
    first.join()
    return train_model(of_workers(ReadAndDecode(), "no-cpu", multiprocessing_context=server), 0.012)


@job("none", FAST, torch=True, spans=True)
def prefetch_one_healthy():
    """(spans) `prefetch_factor=1`, `persistent_workers`, `pin_memory`, two epochs, batches come in time |
    each worker is one batch ahead"""
    data = Samples(lambda index: len(FAST.read(index)), 160, "no-cpu")
    loader = of_workers(data, "no-cpu", prefetch_factor=1, persistent_workers=True, pin_memory=True)
    return train_model(loader, 0.04, epochs=2)
