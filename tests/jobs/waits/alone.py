"""Jobs whose training thread reads its data itself, or waits for something other than data."""

import concurrent.futures
import multiprocessing
import os
import queue
import subprocess
import threading
import time

from clock import Batch, Trainer, Work, compute_for
from loaders import Loader, train
from processes import FAST, SLOW, samples
from registry import job


def own_batches(make, steps, rest="no-cpu"):
    """Batches that the training thread makes itself."""
    work = Work(rest)
    for index in range(steps):
        work.begin()
        content = make(index, work)
        yield Batch(content, work.end())


@job("storage", SLOW)
def no_workers_slow_files():
    """`num_workers=0`, slow files | no wait for another thread"""
    return train(own_batches(samples(SLOW, number=2), 40), 0.025)


@job("cpu", FAST)
def no_workers_decode():
    """`num_workers=0`, decoding for half of the time | without spans decoding and training look alike"""
    return train(own_batches(samples(FAST, decode=0.01, number=2), 50), 0.02)


@job("none", FAST)
def no_workers_healthy():
    """`num_workers=0`, fast files, a training run that computes on the CPU | reads of 1 % of the time"""
    trainer = Trainer()
    for _ in trainer.fetch(own_batches(samples(FAST, number=2), 60)):
        compute_for(0.03)
        trainer.compute(0)
    return trainer


@job("own-work", FAST)
def own_thread_pool():
    """each step waits for a thread of its own (`submit().result()`), batches come in time | a wait, but not for data"""
    loader, trainer = Loader(samples(FAST), 50), Trainer()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        for _ in trainer.fetch(loader):
            with trainer.waiting_for("own-work"):
                pool.submit(compute_for, 0.03).result()
            trainer.compute(0.01)
    loader.close()
    return trainer


def respond(questions, answers, seconds):
    for question in iter(questions.get, None):
        time.sleep(seconds)
        answers.put(question)


@job("own-work", FAST)
def device_process():
    """a process of its own works for 20 ms on each batch that the training sends it | like a loader, but not for data"""
    questions, answers = multiprocessing.Queue(), multiprocessing.Queue()
    device = multiprocessing.Process(target=respond, args=(questions, answers, 0.02))
    device.start()
    loader, trainer = Loader(samples(FAST), 60), Trainer()
    for batch in trainer.fetch(loader):
        with trainer.waiting_for("own-work"):
            questions.put(batch)
            answers.get()
        trainer.compute(0.01)
    questions.put(None)
    device.join()
    loader.close()
    return trainer


@job("own-work", FAST)
def barrier_of_compute_threads():
    """3 threads compute for up to 30 ms a step and meet the training at a barrier | they look like readers, and read nothing"""
    barrier, steps = threading.Barrier(4), 60

    def compute(seconds):
        for _ in range(steps):
            time.sleep(seconds)
            barrier.wait()

    threads = [threading.Thread(target=compute, args=(0.01 * number,)) for number in (1, 2, 3)]
    loader, trainer = Loader(samples(FAST), steps), Trainer()
    for thread in threads:
        thread.start()
    for _ in trainer.fetch(loader):
        trainer.compute(0.01)
        with trainer.waiting_for("own-work"):
            barrier.wait()
    loader.close()
    return trainer


def drain(results, seconds):
    for _ in iter(results.get, None):
        time.sleep(seconds)


@job("own-work", FAST)
def bounded_output():
    """a process takes the results from a queue of 2 in 25 ms each | the training waits for room, not for data"""
    results = multiprocessing.Queue(2)
    writer = multiprocessing.Process(target=drain, args=(results, 0.025))
    writer.start()
    loader, trainer = Loader(samples(FAST), 80), Trainer()
    for batch in trainer.fetch(loader):
        trainer.compute(0.01)
        with trainer.waiting_for("own-work"):
            results.put(batch)
    results.put(None)
    writer.join()
    loader.close()
    return trainer


@job("own-work", FAST, says=("waited .* for locks that other threads held",))
def lock_of_checkpoint_thread():
    """a thread holds a lock while it writes checkpoints, and each step needs the lock | the training stalls, but not for data"""
    lock, done = threading.Lock(), threading.Event()

    def write():
        while not done.wait(0.1):
            with lock:
                save("checkpoint.sync-120ms")

    thread = threading.Thread(target=write)
    thread.start()
    loader, trainer = Loader(samples(FAST), 120), Trainer()
    for _ in trainer.fetch(loader):
        trainer.compute(0.01)
        with trainer.waiting_for("own-work"), lock:
            pass
    done.set()
    thread.join()
    loader.close()
    return trainer


@job("own-work", FAST)
def join_of_saver_threads():
    """every tenth step waits for the thread that saves the last checkpoint | each checkpoint has a thread of its own, which reads nothing"""
    loader, trainer, saver = Loader(samples(FAST), 120), Trainer(), None
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.01)
        if step % 10 == 9:
            with trainer.waiting_for("own-work"):
                if saver is not None:
                    saver.join()
            saver = threading.Thread(target=save, args=("checkpoint.sync-300ms",))
            saver.start()
    saver.join()
    loader.close()
    return trainer


@job("own-work", FAST)
def queue_of_a_writer_thread():
    """a thread writes the results from a `queue.Queue(2)` in 30 ms each | the training waits for room, and the thread reads nothing"""
    results = queue.Queue(2)

    def write():
        while results.get() is not None:
            save("checkpoint.sync-30ms")

    writer = threading.Thread(target=write)
    writer.start()
    loader, trainer = Loader(samples(FAST), 120), Trainer()
    for _ in trainer.fetch(loader):
        trainer.compute(0.01)
        with trainer.waiting_for("own-work"):
            results.put("result")
    results.put(None)
    writer.join()
    loader.close()
    return trainer


def poll(batches, steps):
    """Batches of a queue that is looked at between short sleeps."""
    for _ in range(steps):
        while True:
            try:
                yield batches.get_nowait()
                break
            except queue.Empty:
                time.sleep(0.002)


def make_all(make, steps, batches):
    work = Work()
    for index in range(steps):
        work.begin()
        batches.put(Batch(make(index, work), work.end()))


@job("storage", SLOW)
def looks_and_sleeps():
    """slow files, the trainer looks for a batch and sleeps 2 ms in turn | no call waits for the reader"""
    batches = multiprocessing.Queue(2)
    reader = multiprocessing.Process(target=make_all, args=(samples(SLOW, number=2), 40, batches))
    reader.start()
    trainer = train(poll(batches, 40), 0.02)
    reader.join()
    return trainer


def taken_once_filled(batches, steps):
    """Batches of a queue whose length is looked at between short sleeps."""
    for _ in range(steps):
        while batches.empty():
            time.sleep(0.001)
        yield batches.get()


@job("storage", SLOW)
def sleeps_until_filled():
    """slow files, `while queue.empty(): sleep(0.001)` before each batch | looking is not a call, and no call waits"""
    batches = multiprocessing.Queue(2)
    reader = multiprocessing.Process(target=make_all, args=(samples(SLOW, number=2), 40, batches))
    reader.start()
    trainer = train(taken_once_filled(batches, 40), 0.02)
    reader.join()
    return trainer


@job("storage", SLOW, also=("own-work",))
def own_thread_reads():
    """the trainer lets a thread of its own read each batch and waits for it | a loader without read-ahead"""
    work = Work()

    def make(index):
        work.begin()
        return Batch(samples(SLOW, number=2)(index, work), work.end())

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return train((pool.submit(make, index).result() for index in range(40)), 0.03)


@job("child", FAST)
def program_per_step():
    """each step runs a program (`subprocess.run`), batches come in time | `waitpid` is not a wait for data"""
    loader, trainer = Loader(samples(FAST), 40), Trainer()
    for _ in trainer.fetch(loader):
        with trainer.waiting_for("child"):
            subprocess.run(["sleep", "0.03"], check=True)
        trainer.compute(0.015)
    loader.close()
    return trainer


def answer(connection):
    """Runs a helper process, which computes requests."""
    for seconds in iter(connection.recv, None):
        compute_for(seconds)
        connection.send(seconds)


@job("child", FAST)
def helper_process_per_step():
    """each step asks a helper process and waits for its answer | an answer through a pipe looks like a batch"""
    mine, theirs = multiprocessing.Pipe()
    helper = multiprocessing.Process(target=answer, args=(theirs,))
    helper.start()
    loader, trainer = Loader(samples(FAST), 40), Trainer()
    for _ in trainer.fetch(loader):
        with trainer.waiting_for("child"):
            mine.send(0.025)
            mine.recv()
        trainer.compute(0.015)
    mine.send(None)
    loader.close()
    helper.join()
    return trainer


def polled(batches, steps, pause):
    for _ in range(steps):
        while True:
            try:
                yield Batch(*batches.get(timeout=pause))
                break
            except queue.Empty:
                continue


def share(batches, steps):
    work = Work()
    for index in range(steps):
        work.begin()
        content = samples(SLOW, number=2)(index, work)
        batches.put((content, work.end()))


@job("storage", SLOW)
def polling_trainer():
    """slow files, the trainer polls with a timeout of 5 ms | a wait in many parts that end by a timer"""
    batches = multiprocessing.Queue(4)
    worker = multiprocessing.Process(target=share, args=(batches, 40))
    trainer = Trainer()
    worker.start()
    train(polled(batches, 40, 0.005), 0.018, trainer)
    worker.join()
    return trainer


def save(path, size=4 << 20):
    with open(path, "wb", buffering=0) as file:
        file.write(bytes(size))
        os.fsync(file.fileno())


@job("checkpoint", FAST)
def checkpoints():
    """checkpoints take 40 % of the training, batches come in time | the training stalls, but not for data"""
    loader, trainer = Loader(samples(FAST), 60), Trainer()
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.02)
        if step % 10 == 9:
            with trainer.waiting_for("checkpoint"):
                save("checkpoint.sync-120ms")
    loader.close()
    return trainer


@job("none", FAST)
def checkpoints_in_a_thread():
    """a thread writes the checkpoints during the training | nothing stalls"""
    loader, trainer = Loader(samples(FAST), 60), Trainer()
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.03)
        if step % 10 == 9:
            threading.Thread(target=save, args=("checkpoint.sync-120ms",)).start()
    loader.close()
    return trainer


@job("storage", SLOW)
def checkpoints_and_slow_files():
    """slow files and checkpoints | both stall the training, for different reasons"""
    loader, trainer = Loader(samples(SLOW), 40), Trainer()
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.01)
        if step % 10 == 9:
            with trainer.waiting_for("checkpoint"):
                save("checkpoint.sync-60ms")
    loader.close()
    return trainer


def write_out(index):
    """A checkpoint, written by a process of its own."""
    save(f"checkpoint{index % 2}.sync-60ms")


@job("own-work", FAST, says=("waited .* for its own threads or programs",))
def checkpoint_processes():
    """each fifth step waits for the process that writes the last checkpoint, and starts the next one | a child that calls on files, and reads nothing"""
    loader, trainer, writer = Loader(samples(FAST), 120), Trainer(), None
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.008)
        if step % 5 == 4:
            if writer is not None:
                with trainer.waiting_for("own-work"):
                    writer.join()
            writer = multiprocessing.Process(target=write_out, args=(step,))
            writer.start()
    writer.join()
    loader.close()
    return trainer


def score(seconds):
    compute_for(seconds)
    return seconds


@job("own-work", FAST, says=("waited .* for its own threads or programs",))
def pool_map_beside_loader():
    """each step waits for `Pool.map` of two processes, batches come in time | processes that answer, like readers that deliver"""
    with multiprocessing.Pool(2) as pool:
        loader, trainer = Loader(samples(FAST), 60), Trainer()
        for _ in trainer.fetch(loader):
            with trainer.waiting_for("own-work"):
                pool.map(score, [0.01] * 4, chunksize=1)
            trainer.compute(0.01)
        loader.close()
    return trainer


@job("own-work", SLOW, says=("waited .* for locks that other threads held",))
def lock_of_a_reader():
    """a thread reads ahead under a lock of the library, which the training needs, too, to note its results | the holder is the reader"""
    library, ahead, steps = threading.RLock(), queue.Queue(4), 60

    def read():
        make, work = samples(SLOW, number=1), Work()
        for index in range(steps):
            work.begin()
            with library:
                content = make(index, work)
            ahead.put((content, work.end()))

    threading.Thread(target=read).start()
    trainer = Trainer()
    for _ in trainer.fetch(Batch(*ahead.get()) for _ in range(steps)):
        trainer.compute(0.03)
        for _ in range(2):
            with trainer.waiting_for("own-work"), library:
                pass
    return trainer
