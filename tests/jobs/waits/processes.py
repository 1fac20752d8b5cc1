"""Jobs whose readers are processes that deliver through queues and pipes of multiprocessing."""

import concurrent.futures
import contextlib
import fcntl
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import time
import zipfile
from multiprocessing import shared_memory

from clock import Batch, Trainer, Work, compute_for, now
from loaders import Loader, read_messages, train, train_with_new_workers, untraced, write_messages
from registry import Files, Made, job

SLOW = Files("slow", 160, slow="read-20ms")
FAST = Files("fast", 160)
PARTS = Files("parts", 160)
SIX, THIRTY = Files("six", 160, slow="read-6ms"), Files("thirty", 160, slow="read-30ms")
TABLE = Files("table", 4, size=8 << 20)
LARGE = Files("large", 1, size=256 << 20)


def bytewise(files):
    """A maker of batches that reads each sample 8 bytes at a time."""

    def make(index, work):
        total = 0
        file = os.open(files.path(index), os.O_RDONLY)
        while content := os.read(file, 8):
            total += content[0]
        os.close(file)
        return total

    return make


def samples(files, decode=0.0, number=4):
    """A maker of batches: it reads samples and decodes each."""

    def make(index, work):
        total = 0
        for sample in range(index * number, (index + 1) * number):
            with work.at("storage"):
                content = files.read(sample)
            total += content[0] + content[-1]
            compute_for(decode)
        return total

    return make


# ---- storage -------------------------------------------------------------------------------------------------------------


@job("storage", SLOW)
def slow_files():
    """2 workers read slow files | the plain case"""
    return train(Loader(samples(SLOW), 40), 0.018)


def slow_samples(index, work):
    return samples(SLOW)(index, work)


@job("storage", SLOW)
def slow_files_forkserver():
    """slow files, workers of a fork server | a server between trainer and workers"""
    return train(Loader(slow_samples, 40, start="forkserver"), 0.018)


def make_share(make, worker, workers, steps, batches):
    work = Work()
    for index in range(worker, steps, workers):
        work.begin()
        content = make(index, work)
        batches.put((content, work.end()))


@job("storage", SLOW)
def slow_files_unasked():
    """slow files, workers know from the start what to read | no batch is requested"""
    steps, batches = 40, multiprocessing.Queue(4)
    workers = [multiprocessing.Process(target=make_share, args=(samples(SLOW), n, 2, steps, batches)) for n in (0, 1)]
    trainer = Trainer()
    for worker in workers:
        worker.start()
    train((Batch(*batches.get()) for _ in range(steps)), 0.018, trainer)
    for worker in workers:
        worker.join()
    return trainer


OWN = Work()


def pool_task(index):
    OWN.begin()
    content = samples(SLOW)(index, OWN)
    return content, OWN.end()


@job("storage", SLOW)
def slow_files_pool():
    """slow files, `Pool.imap` | a result thread in the trainer, a shared queue of tasks with a lock"""
    with multiprocessing.Pool(2) as pool:
        return train((Batch(*made) for made in pool.imap(pool_task, range(40))), 0.018)


@job("storage", SLOW)
def slow_files_executor():
    """slow files, `ProcessPoolExecutor.map` | a manager thread between the pipe and the trainer"""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return train((Batch(*made) for made in pool.map(pool_task, range(40))), 0.018)


@job("storage", SLOW)
def slow_files_manager():
    """slow files, `Manager().Queue()` | batches pass through sockets and a third process"""
    with multiprocessing.Manager() as manager:
        batches = manager.Queue(4)
        workers = [multiprocessing.Process(target=make_share, args=(samples(SLOW), n, 2, 40, batches)) for n in (0, 1)]
        trainer = Trainer()
        for worker in workers:
            worker.start()
        train((Batch(*batches.get()) for _ in range(40)), 0.018, trainer)
        for worker in workers:
            worker.join()
    return trainer


@job("storage", SLOW)
def slow_files_pipe():
    """slow files, one forked reader behind a plain `os.pipe` | no queue, no lock, no feeder thread"""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        write_messages(samples(SLOW, number=2), 40, lambda message: os.write(writer, message))
        os._exit(0)
    os.close(writer)
    trainer = train(read_messages(lambda size: os.read(reader, size), 40), 0.018)
    os.waitpid(child, 0)
    return trainer


@job("storage", SLOW)
def slow_files_socketpair():
    """slow files, one forked reader behind a socketpair | `recv` is not the network"""
    mine, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        write_messages(samples(SLOW, number=2), 40, theirs.sendall)
        os._exit(0)
    theirs.close()
    trainer = train(read_messages(lambda size: mine.recv(size, socket.MSG_WAITALL), 40), 0.018)
    os.waitpid(child, 0)
    return trainer


@job("storage", SLOW)
def slow_files_semaphores():
    """slow files, 2 workers with a slot of shared memory and a pair of semaphores each | no pipe at all"""
    memory = mmap.mmap(-1, 2 << 16)
    free, full = ([multiprocessing.Semaphore(number) for _ in range(2)] for number in (1, 0))

    def reader(worker):
        work = Work()
        for index in range(worker, 40, 2):
            work.begin()
            made = pickle.dumps((samples(SLOW)(index, work), work.end()))
            free[worker].acquire()
            memory[worker << 16 : (worker << 16) + len(made)] = made
            full[worker].release()

    def batches():
        for index in range(40):
            full[index % 2].acquire()
            batch = Batch(*pickle.loads(memory[index % 2 << 16 : (index % 2 + 1) << 16]))
            free[index % 2].release()
            yield batch

    workers = [multiprocessing.Process(target=reader, args=(worker,)) for worker in (0, 1)]
    trainer = Trainer()
    for worker in workers:
        worker.start()
    train(batches(), 0.018, trainer)
    for worker in workers:
        worker.join()
    return trainer


SHARDS = Files("shards", 8, size=16 << 20, slow="read-20ms")


def large_reads(index, work):
    with work.at("storage"), open(SHARDS.path(index // 4), "rb", buffering=0) as file:
        file.seek((index % 4) << 22)
        return sum(len(file.read(1 << 20)) for _ in range(4))


@job("storage", SHARDS)
def large_slow_reads():
    """reads of 1 MiB from shards, 20 ms each | storage by bytes, few calls"""
    return train(Loader(large_reads, 32), 0.018)


STATS = Files("stats", 160, slow="stat-4ms")


def stat_samples(index, work):
    with work.at("storage"):
        for sample in range(16):
            os.stat(STATS.path(index * 4 + sample))
    return samples(FAST)(index, work)


@job("storage", STATS, FAST)
def slow_stats():
    """16 slow `stat` per batch | storage without reads"""
    return train(Loader(stat_samples, 40), 0.012)


@job("storage", SLOW)
def read_20_decode_5():
    """1 worker reads 20 ms, decodes 5 ms, step 17 ms | the path within the wait says decoding"""
    return train(Loader(samples(SLOW, decode=0.005, number=1), 80, workers=1), 0.017)


@job("cpu", FAST, says=("CPU time in file calls",), never=("decoding",))
def reads_of_8_bytes():
    """1 worker reads files of 64 KiB in pieces of 8 bytes, from memory | CPU time, and nothing to decode"""
    return train(Loader(bytewise(FAST), 60, workers=1), 0.005)


@job("cpu", SIX)
def decode_20_read_6():
    """1 worker reads 6 ms, decodes 20 ms, step 17 ms | most of the reads are hidden"""
    return train(Loader(samples(SIX, decode=0.02, number=1), 80, workers=1), 0.017)


@job("storage", SLOW)
def read_20_decode_18():
    """1 worker reads 20 ms and decodes 18 ms | both take part"""
    return train(Loader(samples(SLOW, decode=0.018, number=1), 60, workers=1), 0.015)


def two_stages(read, decode, step, steps=60):
    """A reader process, a decoder process, the trainer; both send through queues of 2."""
    raw, made = multiprocessing.Queue(2), multiprocessing.Queue(2)

    def reader():
        work = Work()
        for index in range(steps):
            work.begin()
            with work.at("storage"):
                content = read.read(index)
            raw.put((content, work.end()))

    def decoder():
        work = Work()
        for _ in range(steps):
            content, record = raw.get()
            work.begin(source=record)
            compute_for(decode)
            made.put((content[0], work.end()))

    stages = [multiprocessing.Process(target=target) for target in (reader, decoder)]
    trainer = Trainer()
    for stage in stages:
        stage.start()
    train((Batch(*made.get()) for _ in range(steps)), step, trainer)
    for stage in stages:
        stage.join()
    return trainer


@job("storage", THIRTY)
def stages_slow_reader():
    """reader process (30 ms), decoder process (8 ms), trainer | the sender to the trainer opens no file"""
    return two_stages(THIRTY, 0.008, 0.017)


@job("cpu", SIX)
def stages_slow_decoder():
    """reader process (6 ms), decoder process (25 ms), trainer | the reader of files is blocked on a full pipe"""
    return two_stages(SIX, 0.025, 0.017)


HEAD = Files("head", 240, slow="read-200ms", slow_every=20)


@job("storage", HEAD)
def head_of_line_file():
    """every 20th file takes 200 ms, batches in order | the mean says healthy"""
    return train(Loader(samples(HEAD, number=1), 120), 0.008)


@job("storage", SLOW, FAST)
def one_slow_worker():
    """1 of 3 workers reads from a slow disk | two thirds of the readers are idle"""

    def make(index, work):
        return samples(SLOW if index % 3 == 1 else FAST)(index, work)

    return train(Loader(make, 45, workers=3), 0.015)


@job("storage", SLOW, FAST)
def slow_evaluation():
    """an evaluation every 20 steps reads slow files, training files are fast | two loaders in one trainer"""
    training, trainer = Loader(samples(FAST), 80), Trainer()
    batches = trainer.fetch(training)
    for step, _ in enumerate(batches):
        trainer.compute(0.015)
        if step % 20 == 19:
            train(Loader(samples(SLOW), 8), 0.002, trainer)
    training.close()
    return trainer


@job("storage", SLOW, runs=2)
def slow_files_twice():
    """slow files, two runs in one trace directory | shares must be those of the last run"""
    return train(Loader(samples(SLOW), 25), 0.018)


# ---- CPU -----------------------------------------------------------------------------------------------------------------


@job("cpu", FAST)
def decode():
    """2 workers decode 10 ms per sample of fast files | the plain case"""
    return train(Loader(samples(FAST, decode=0.01), 40), 0.01)


@job("cpu")
def decode_in_memory():
    """2 workers decode data that they generate | no data file is opened at all"""

    def make(index, work):
        compute_for(0.035)
        return index

    return train(Loader(make, 40), 0.01)


def pool_decode(index):
    OWN.begin()
    content = samples(FAST, decode=0.012)(index, OWN)
    return content, OWN.end()


@job("cpu", FAST)
def decode_pool():
    """`ProcessPoolExecutor.map`, decoding | the future's lock, a manager thread"""
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        return train((Batch(*made) for made in pool.map(pool_decode, range(40))), 0.01)


def small_reads_of_table(index, work):
    total = 0
    with open(TABLE.path(index), "rb", buffering=0) as file:
        for _ in range(6000):
            total += len(file.read(256))
            if file.tell() >= TABLE.size:
                file.seek(0)
    return total


@job("cpu", TABLE)
def small_reads():
    """6,000 cached reads of 256 bytes per batch | storage is fast, calls are many"""
    return train(Loader(small_reads_of_table, 40), 0.004)


@job("cpu", FAST)
def head_of_line_cpu():
    """every 20th sample decodes for 200 ms, batches in order | the mean says healthy"""

    def make(index, work):
        return samples(FAST, decode=0.2 if index % 20 == 19 else 0.002, number=1)(index, work)

    return train(Loader(make, 120), 0.01)


def on_cpu_0(make):
    """Runs the maker on one CPU together with other processes there."""

    def make_there(index, work):
        os.sched_setaffinity(0, {0})
        return make(index, work)

    return make_there


@job("no-cpu", FAST, finding="cpu-affinity")
def four_workers_on_one_cpu():
    """4 workers decode on one CPU (as by taskset) | more workers will not help"""
    return train(Loader(on_cpu_0(samples(FAST, decode=0.004)), 60, workers=4), 0.004)


def burn():
    os.sched_setaffinity(0, {0})
    while True:
        sum(range(10000))


class BusyProcesses:
    """Processes outside the trace that keep the first CPU busy."""

    def __init__(self, number):
        script = "import os\nos.sched_setaffinity(0, {0})\nwhile os.getppid() != 1: sum(range(10000))"
        self.processes = [subprocess.Popen(["python3", "-c", script], env=untraced()) for _ in range(number)]
        time.sleep(0.2)

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()


@job("no-cpu", FAST, finding="noisy-neighbor")
def foreign_process_on_the_cpu():
    """1 worker shares its CPU with busy processes outside the trace | the culprits are not in the trace"""
    others = BusyProcesses(3)
    trainer = train(Loader(on_cpu_0(samples(FAST, decode=0.002)), 60, workers=1), 0.004)
    others.kill()
    return trainer


# ---- mappings ------------------------------------------------------------------------------------------------------------


def pages(decode, rest, evict=False):
    """A maker that touches random pages of a mapped file. What it waits for outside calls is ``rest``."""
    state = {}

    def make(index, work):
        work.rest = rest
        if not state:
            descriptor = os.open(LARGE.path(0), os.O_RDONLY)
            state["pages"] = mmap.mmap(descriptor, LARGE.size, prot=mmap.PROT_READ)
            state["pages"].madvise(mmap.MADV_RANDOM)
        data, position = state["pages"], index * 7919
        total = 0
        with work.at("page-faults") if evict else contextlib.nullcontext():
            for _ in range(400):
                position = (position * 1103515245 + 12345) % (1 << 31)
                total += data[position % LARGE.size]
        compute_for(decode)
        return total

    return make


def evict(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


@job("page-faults", LARGE)
def cold_mapping():
    """2 workers touch random pages of a mapped file that is not cached | `mmap` is the only call"""
    evict(LARGE.path(0))
    return train(Loader(pages(0.0, "page-faults", evict=True), 60), 0.003)


@job("cpu", LARGE)
def warm_mapping_decode():
    """2 workers map a cached file and decode 30 ms | no page is read from storage"""
    with open(LARGE.path(0), "rb") as file:
        while file.read(1 << 22):
            pass
    return train(Loader(pages(0.03, "no-cpu"), 40), 0.008)


@job("cpu")
def new_memory_per_batch():
    """each batch touches 48 MiB of new memory | minor faults: kernel CPU time, no storage"""

    def make(index, work):
        memory = mmap.mmap(-1, 48 << 20)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(0, 48 << 20, 4096):
            memory[page] = 1
        memory.close()
        return index

    return train(Loader(make, 40), 0.005)


# ---- locks, sleep, children ----------------------------------------------------------------------------------------------


def hold_lock(path, ready):
    """A process outside the loader that holds the lock most of the time."""
    with open(path, "w") as file:
        ready.set()
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            time.sleep(0.02)
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.0005)


def locked_batches(lock, seconds, files=FAST):
    """A maker that reads under a lock, and keeps it for so long."""

    def make(index, work):
        with open("index.lock", "a") as file:
            with work.at("lock"):
                lock(file)
            time.sleep(seconds)
        return samples(files)(index, work)

    return make


@job("lock", FAST)
def flock_held_elsewhere():
    """workers wait for a `flock` that a process outside the loader holds for 20 ms | the readers' files are fast"""
    ready = multiprocessing.Event()
    holder = multiprocessing.Process(target=hold_lock, args=("index.lock", ready), daemon=True)
    holder.start()
    ready.wait()
    trainer = train(Loader(locked_batches(lambda file: fcntl.flock(file, fcntl.LOCK_EX), 0), 60), 0.004)
    holder.kill()
    holder.join()
    return trainer


@job("lock", FAST, also=("sleep",))
def fcntl_lock():
    """4 workers, one at a time holds an `fcntl` lock for 20 ms | the holder sleeps: that is the lock's, too"""

    def make(index, work):
        work.rest = "lock"
        return locked_batches(lambda file: fcntl.lockf(file, fcntl.LOCK_EX), 0.02)(index, work)

    return train(Loader(make, 60, workers=4), 0.004)


@job("sleep", FAST)
def sleeping_readers():
    """2 workers sleep 30 ms per batch | neither storage nor decoding"""

    def make(index, work):
        with work.at("sleep"):
            time.sleep(0.03)
        return samples(FAST)(index, work)

    return train(Loader(make, 50), 0.005)


@job("child", FAST)
def workers_run_programs():
    """2 workers start a program for each batch and wait for it | the child of a worker: a wait for data"""

    def make(index, work):
        with work.at("child"):
            subprocess.run(["sleep", "0.05"], check=True)
        return samples(FAST)(index, work)

    return train(Loader(make, 40), 0.01)


# ---- hand-over -----------------------------------------------------------------------------------------------------------


def large_content(index, work, content=bytearray(24 << 20)):
    return content


@job("handover")
def pickles_of_24_mb():
    """batches of 24 MB are pickled through a pipe | workers are idle, the pipe is not"""
    return train(Loader(large_content, 40), 0.004)


@job("none", FAST)
def batches_in_shared_memory():
    """batches of 24 MB stay in shared memory, only names are sent | healthy"""
    blocks = [shared_memory.SharedMemory(create=True, size=24 << 20) for _ in range(4)]

    def make(index, work):
        blocks[index % 4].buf[: 1 << 20] = bytes(1 << 20)
        return samples(FAST)(index, work)

    trainer = train(Loader(make, 60), 0.03)
    for block in blocks:
        block.close()
        block.unlink()
    return trainer


# ---- start ---------------------------------------------------------------------------------------------------------------


@job("start", FAST)
def new_workers_each_epoch():
    """5 epochs of 15 steps, each with new workers that need 300 ms to get ready | once started they are fast"""
    return train_with_new_workers(5, 0.01, samples(FAST), 15, prepare=0.3)


@job("start", FAST)
def spawned_workers_each_epoch():
    """3 epochs, each with spawned workers that import modules | imports are CPU time and file reads of the start"""
    return train_with_new_workers(3, 0.01, fast_samples, 15, start="spawn")


def fast_samples(index, work):
    return samples(FAST)(index, work)


@job("start", FAST, also=("unknown",))
def killed_reader():
    """a reader is killed in mid-batch, the next one needs 1.5 s to begin | no batch is sent in between; parts must add up"""
    kill_at = 20

    def batches():
        for part in (range(kill_at), range(kill_at, 60)):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                if part.start:
                    time.sleep(1.5)
                write_messages(samples(FAST), len(part), lambda message: os.write(writer, message))
                time.sleep(10)
                os._exit(0)
            os.close(writer)
            yield from read_messages(lambda size: os.read(reader, size), len(part))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(reader)

    return train(batches(), 0.02)


# ---- on request, and from shared data --------------------------------------------------------------------------------------


def answer_requests(connection, make):
    """Makes the batch of each number that arrives, until nothing arrives."""
    work = Work()
    while (index := connection.recv()) is not None:
        work.begin()
        content = make(index, work)
        connection.send((content, work.end()))


@job("cpu", FAST, says=("make no batches ahead", "request the next batch before the step"))
def decode_on_request():
    """a process decodes each batch when the training asks for it | equal batches, and a reader that rests in every step"""
    own, other = multiprocessing.Pipe()
    server = multiprocessing.Process(target=answer_requests, args=(other, samples(FAST, decode=0.006)))
    server.start()

    def ask(index):
        own.send(index)
        return Batch(*own.recv())

    trainer = train(map(ask, range(40)), 0.03)
    own.send(None)
    server.join()
    return trainer


def zip_of_many(path):
    with zipfile.ZipFile(os.path.join(path, "samples.zip"), "w") as archive:
        for number in range(20_000):
            archive.writestr(f"{number:05}", bytes(64))


ZIP = Made("zipped", zip_of_many)


def from_zip(index, work):
    with zipfile.ZipFile(ZIP.path("samples.zip")) as archive:
        return archive.read(f"{index:05}")[0]


@job("cpu", ZIP, says=("open .*samples.zip once in each reader",))
def archive_opened_per_sample():
    """workers open an archive for each batch, and parse the names of its 20,000 files | nothing to decode, and little to read"""
    return train(Loader(from_zip, 40), 0.01)


def from_manager(shared):
    """A maker of batches from the values of a manager's dictionary."""

    def make(index, work):
        with work.at("handover"):
            content = b"".join(shared[key] for key in range(4))
        return content[index % len(content)] + content[-1]

    return make


@job("handover", FAST, says=("keep what readers get from .* in each reader",))
def dictionary_of_a_manager():
    """workers get 8 MB per batch from `Manager().dict()` | small batches: what is passed on goes to the readers"""
    with multiprocessing.Manager() as manager:
        shared = manager.dict({key: os.urandom(2 << 20) for key in range(4)})
        return train(Loader(from_manager(shared), 200), 0.005)


def decode_sample(index):
    OWN.begin()
    return samples(FAST, decode=0.006)(index % 40, OWN)


def all_samples(files):
    """Each worker decodes each sample of the pass, and keeps its share: the batches of all others are lost work."""

    def make(index, work):
        return sum(samples(files, decode=0.005)(2 * (index // 2) + part, work) for part in range(2))

    return make


@job("cpu", PARTS, says=("let each reader read its own part of the data",))
def files_read_by_all_workers():
    """each of 2 workers reads and decodes all samples | a data set that is not divided among the workers"""
    return train(Loader(all_samples(PARTS), 40), 0.01)


@job("cpu", FAST)
def pool_map_per_pass():
    """`Pool.map` makes the samples of a whole pass before its steps | two equal workers, and one of them ends the wait"""
    trainer = Trainer(assumed="cpu")
    with multiprocessing.Pool(2) as pool:
        pool.map(decode_sample, range(2))
        trainer.start = trainer.stop = now()
        for _ in range(3):
            start = now()
            made = pool.map(decode_sample, range(40))
            trainer.note(start, now())
            for _ in made:
                trainer.compute(0.01)
    return trainer


# ---- healthy -------------------------------------------------------------------------------------------------------------


@job("none", FAST)
def healthy():
    """batches are ready before the training needs them | the plain case"""
    return train(Loader(samples(FAST), 60), 0.04)


@job("none", SLOW)
def healthy_readers_always_reading():
    """readers read slow files all the time, batches come in time | reading is not waiting"""
    return train(Loader(samples(SLOW), 40, workers=3, ahead=3), 0.06)


@job("none", FAST)
def healthy_decoding():
    """readers decode for most of the time, batches come in time | decoding is not waiting"""
    return train(Loader(samples(FAST, decode=0.004), 40), 0.07)


@job("none", FAST)
def healthy_pool():
    """`Pool.imap`, batches come in time | idle workers wait for the lock of the task queue"""
    with multiprocessing.Pool(3) as pool:
        return train((Batch(*made) for made in pool.imap(pool_fast, range(60))), 0.04)


def pool_fast(index):
    OWN.begin()
    content = samples(FAST)(index, OWN)
    return content, OWN.end()


@job("none", FAST)
def healthy_random_steps():
    """steps of 5 to 90 ms, batches come in time | no rhythm"""
    trainer = Trainer()
    loader = Loader(samples(FAST), 60)
    for step, _ in enumerate(trainer.fetch(loader)):
        trainer.compute(0.005 + 0.085 * (step * 37 % 60) / 60)
    loader.close()
    return trainer
