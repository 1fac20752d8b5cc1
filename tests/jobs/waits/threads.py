"""Jobs whose readers are threads of the training's own process."""

import concurrent.futures
import multiprocessing
import os
import queue
import socket
import threading
import time

from batches import own
from clock import Batch, Trainer, Work, compute_for
from loaders import message, read_messages, train, write_messages
from network import server
from processes import FAST, SLOW, samples
from registry import Made, job


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
    """2 threads read slow files, `queue.Queue` | no process delivers anything"""
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


def write_npz(path):
    import numpy

    rows = numpy.random.default_rng(0).integers(0, 64, (40, 512, 4096), "uint8")
    for index, row in enumerate(rows):
        numpy.savez_compressed(os.path.join(path, f"{index}.npz"), row=row)


NPZ = Made("npz", write_npz)


@job("cpu", NPZ, torch=True, needs=("numpy",))
def npz_threads():
    """`ThreadPoolExecutor`, 2 threads read compressed .npz files | zlib releases the GIL: threads really run side by side"""
    import numpy

    def make(index):
        work = own("no-cpu")
        work.sample()
        with numpy.load(NPZ.path(f"{index % 40}.npz")) as file:
            content = int(file["row"][0].sum())
        return Batch(content, work.batch())

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return train(pool.map(make, range(120)), 0.005)


@job("network", torch=True, needs=("aiohttp",))
def asyncio_thread():
    """an event loop in a thread requests samples with aiohttp, 2 batches ahead | one thread makes several batches at once"""
    import asyncio

    import aiohttp

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def open_session():
        return aiohttp.ClientSession()

    async def make(session, port, index):
        work = Work()
        # Coroutines take turns in one thread: their maker is not a thread, and there is no wait for a start.
        work.items = 1
        work.begin()
        content = 0
        with work.at("network"):
            for sample in range(3):
                async with session.get(f"http://127.0.0.1:{port}/{index}.{sample}") as response:
                    content += len(await response.read())
        return Batch(content, work.end())

    with server(0.02) as port:
        session = asyncio.run_coroutine_threadsafe(open_session(), loop).result()
        ahead = [asyncio.run_coroutine_threadsafe(make(session, port, index), loop) for index in range(2)]

        def batches():
            for index in range(60):
                batch = ahead.pop(0).result()
                ahead.append(asyncio.run_coroutine_threadsafe(make(session, port, index + 2), loop))
                yield batch

        return train(batches(), 0.012)


@job("storage", SLOW)
def trainer_in_a_thread():
    """2 threads read slow files, a third one trains | the main thread only waits for it"""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(train_with_threads, samples(SLOW), 40, 0.018).result()


def read_from(connection):
    """Returns a function that reads exactly as many bytes as requested."""
    return lambda size: connection.recv(size, socket.MSG_WAITALL)


def fill(listener, store, filled):
    """Keeps what a process sends, by number."""
    connection, _ = listener.accept()
    for index, batch in enumerate(read_messages(read_from(connection), 40)):
        with filled:
            store[index] = batch
            filled.notify()


def serve(listener, store, filled):
    """Answers requests for numbers once the store has them."""
    connection, _ = listener.accept()
    for index in range(40):
        connection.recv(1)
        with filled:
            filled.wait_for(lambda: index in store)
        connection.sendall(message(store.pop(index)))


def produce(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        write_messages(samples(FAST, decode=0.008), 40, connection.sendall)


@job("cpu", FAST)
def store_in_the_trainer():
    """a process decodes for a store, which the training asks through TCP | the store's threads belong to the training's own process"""
    listeners, (store, filled) = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)], ({}, threading.Condition())
    threads = [
        threading.Thread(target=work, args=(listener, store, filled)) for work, listener in zip((fill, serve), listeners)
    ]
    for thread in threads:
        thread.start()
    producer = multiprocessing.Process(target=produce, args=(listeners[0].getsockname()[1],))
    producer.start()
    with socket.create_connection(listeners[1].getsockname()) as connection:

        def ask():
            for _ in range(40):
                connection.send(b"?")
                yield from read_messages(read_from(connection), 1)

        trainer = train(ask(), 0.01)
    for worker in [producer, *threads]:
        worker.join()
    return trainer
