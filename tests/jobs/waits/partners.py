"""Jobs of several programs, none of which started the other: one makes the data, or all meet."""

import multiprocessing
import os
import pickle
import queue
import shutil
import socket
import threading
import time

from clock import Batch, Trainer, Work, compute_for
from loaders import train
from processes import FAST, SIX, SLOW, samples
from ranks import Ranks
from registry import job


def beside(make, training):
    """Runs ``make()`` and a training in two processes. Returns the training's result."""
    results = multiprocessing.SimpleQueue()
    maker = multiprocessing.Process(target=make)
    trainer = multiprocessing.Process(target=lambda: results.put(training().result()))
    maker.start()
    trainer.start()
    made = results.get()
    maker.join()
    trainer.join()
    return Ranks([made])


def spool(name):
    shutil.rmtree(name, ignore_errors=True)
    os.makedirs(name)
    return name


def put(folder, index, content):
    """Writes a file that appears whole."""
    with open(os.path.join(folder, "draft"), "wb") as file:
        pickle.dump(content, file)
    os.rename(os.path.join(folder, "draft"), os.path.join(folder, f"{index}.batch"))


def found(folder, index):
    """Waits for a file by looking for it."""
    path = os.path.join(folder, f"{index}.batch")
    while not os.path.exists(path):
        time.sleep(0.004)
    with open(path, "rb") as file:
        return Batch(*pickle.load(file))


def spool_batches(folder, make, steps):
    work = Work()
    for index in range(steps):
        work.begin()
        content = make(index, work)
        put(folder, index, (content, work.end()))


@job("storage", SLOW, says=("looked for files that did not exist yet",))
def files_of_a_producer():
    """another program writes each batch to a file, the training looks for it and sleeps 4 ms in turn | no call waits for the producer"""
    folder, steps = spool("spool"), 40
    batches = lambda: (found(folder, index) for index in range(steps))
    return beside(lambda: spool_batches(folder, samples(SLOW, number=2), steps), lambda: train(batches(), 0.02))


@job("none", FAST)
def files_of_a_fast_producer():
    """the same with fast files: batches come in time | looks that find a file at once"""
    folder, steps = spool("spool"), 40
    batches = lambda: (found(folder, index) for index in range(steps))
    return beside(lambda: spool_batches(folder, samples(FAST), steps), lambda: train(batches(), 0.04))


@job("cpu", FAST, also=("no-cpu",))
def decoder_behind_a_socket():
    """a thread of the training asks a decoder for each batch, another program with a Unix socket | the thread only receives"""
    steps, path = 60, os.path.abspath("decoder.sock")
    if os.path.exists(path):
        os.unlink(path)

    def decode():
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen()
        connection, _ = listening.accept()
        make, work = samples(FAST, decode=0.012, number=2), Work("no-cpu")
        while question := connection.recv(16):
            work.begin()
            content = make(int(question), work)
            connection.sendall(pickle.dumps((content, work.end())).ljust(65536, b"\0"))

    def batches():
        connection, ahead = socket.socket(socket.AF_UNIX), queue.Queue(2)
        while connection.connect_ex(path):
            time.sleep(0.01)

        def ask():
            for index in range(steps):
                connection.sendall(str(index).encode())
                ahead.put(pickle.loads(connection.recv(65536, socket.MSG_WAITALL)))
            connection.close()

        threading.Thread(target=ask).start()
        for _ in range(steps):
            yield Batch(*ahead.get())

    return beside(decode, lambda: train(batches(), 0.012))


@job("other-rank", FAST, SIX)
def ranks_meet_by_files():
    """2 ranks tell each other by files how far they are, rank 1 reads 60 ms per step itself | no call waits for the other rank"""
    folder, results = spool("meeting"), multiprocessing.SimpleQueue()

    def rank(own, files, number):
        trainer, work, make = Trainer(), Work(), samples(files, number=number)
        for step in range(40):
            work.begin()
            start = time.perf_counter()
            make(step, work)
            trainer.note(start, time.perf_counter(), work.end())
            trainer.compute(0.02)
            with open(os.path.join(folder, f"{own}.{step}"), "w"):
                pass
            with trainer.waiting_for("other-rank"):
                while not os.path.exists(os.path.join(folder, f"{1 - own}.{step}")):
                    time.sleep(0.003)
        results.put(trainer.result())

    both = [multiprocessing.Process(target=rank, args=args) for args in ((0, FAST, 1), (1, SIX, 10))]
    for process in both:
        process.start()
    made = [results.get() for _ in both]
    for process in both:
        process.join()
    return Ranks(made)
