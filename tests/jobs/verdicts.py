#!/usr/bin/env python3
"""Compares the analyzer's verdict on small training jobs with their own clocks.

    tests/jobs/verdicts.py [--list] [--short] [--tries N] [--keep DIR | --again DIR] [--markdown] [JOB...]

Each job in ``waits/`` waits for a built-in cause and measures that wait: its last line is the truth. Each runs under
``dlio trace``; the report of ``dlio-analyze`` must agree:

* the share of training time spent waiting for data is within 5 percentage points of the job's;
* the cause that the verdict names is the largest by the job's clock, or within 15 points of it;
  the CPU and the lack of one (or of the GIL) count as one cause if each is a quarter of the wait;
* the finding for the built-in cause fires;
* no sentence of the verdict or of a finding makes a claim that is false (``CLAIMS``), and the start of readers is within 5 points.

``--short`` runs one job of each kind, as ``make test`` does; ``--tries`` repeats jobs with a wrong result, for a busy host.
"Unknown" is never right and never wrong. The exit status is 1 if any claim was false. Run it on an idle host: on a busy one the
clocks are still right, but more jobs wait for a CPU.

DLIO_BIN_DIR is where the programs are (``target/dist/bin``), DLIO_TORCH_VENV an environment with PyTorch and the libraries of
``waits/requirements.txt`` (``~/.cache/dlio-torch-venv``); jobs that import them run only there. Jobs marked (spans) run under
`python3 -m dliotrace run --torch` of the wheel in DLIO_WHEEL (``target/dist/wheel/*.whl``).

=============================== ============ ================================================================================
job                             built in     what happens | what an analyzer may fall for
=============================== ============ ================================================================================
readers are processes (``waits/processes.py``)
-----------------------------------------------------------------------------------------------------------------------------
slow-files                      storage      2 workers read slow files | the plain case
slow-files-forkserver           storage      slow files, workers of a fork server | a server between trainer and workers
slow-files-unasked              storage      slow files, workers know from the start what to read | no batch is requested
slow-files-pool                 storage      slow files, `Pool.imap` | a result thread in the trainer, a shared queue of tasks with a lock
slow-files-executor             storage      slow files, `ProcessPoolExecutor.map` | a manager thread between the pipe and the trainer
slow-files-manager              storage      slow files, `Manager().Queue()` | batches pass through sockets and a third process
slow-files-pipe                 storage      slow files, one forked reader behind a plain `os.pipe` | no queue, no lock, no feeder thread
slow-files-socketpair           storage      slow files, one forked reader behind a socketpair | `recv` is not the network
slow-files-semaphores           storage      slow files, 2 workers with a slot of shared memory and a pair of semaphores each | no pipe at all
large-slow-reads                storage      reads of 1 MiB from shards, 20 ms each | storage by bytes, few calls
slow-stats                      storage      16 slow `stat` per batch | storage without reads
read-20-decode-5                storage      1 worker reads 20 ms, decodes 5 ms, step 17 ms | the path within the wait says decoding
reads-of-8-bytes                cpu          1 worker reads files of 64 KiB in pieces of 8 bytes, from memory | CPU time, and nothing to decode
decode-20-read-6                cpu          1 worker reads 6 ms, decodes 20 ms, step 17 ms | most of the reads are hidden
read-20-decode-18               storage      1 worker reads 20 ms and decodes 18 ms | both take part
stages-slow-reader              storage      reader process (30 ms), decoder process (8 ms), trainer | the sender to the trainer opens no file
stages-slow-decoder             cpu          reader process (6 ms), decoder process (25 ms), trainer | the reader of files is blocked on a full pipe
head-of-line-file               storage      every 20th file takes 200 ms, batches in order | the mean says healthy
one-slow-worker                 storage      1 of 3 workers reads from a slow disk | two thirds of the readers are idle
slow-evaluation                 storage      an evaluation every 20 steps reads slow files, training files are fast | two loaders in one trainer
slow-files-twice                storage      slow files, two runs in one trace directory | shares must be those of the last run
decode                          cpu          2 workers decode 10 ms per sample of fast files | the plain case
decode-in-memory                cpu          2 workers decode data that they generate | no data file is opened at all
decode-pool                     cpu          `ProcessPoolExecutor.map`, decoding | the future's lock, a manager thread
small-reads                     cpu          6,000 cached reads of 256 bytes per batch | storage is fast, calls are many
head-of-line-cpu                cpu          every 20th sample decodes for 200 ms, batches in order | the mean says healthy
four-workers-on-one-cpu         no-cpu       4 workers decode on one CPU (as by taskset) | more workers will not help
foreign-process-on-the-cpu      no-cpu       1 worker shares its CPU with busy processes outside the trace | the culprits are not in the trace
cpu-quota                       no-cpu       2 workers decode under a quota of 0.6 CPUs | both CPUs of the machine are idle half of the time
cpu-quota-that-suffices         cpu          2 workers decode under a quota of 50 CPUs | a quota, and not the cause
low-cpu-weight                  no-cpu       1 worker of a control group with a low CPU weight shares its CPU with one busy process outside the trace | the neighbor alone would leave it half of the CPU
torch-threads-in-each-worker    no-cpu       4 workers with a pool of 8 threads each, more than there are CPUs | each worker alone would be well advised
memory-limit                    storage      336 MB read five times under a memory limit of 150 MB | without the limit they would fit
memory-limit-that-suffices      none         336 MB read five times under a memory limit of 2 GB | only the first epoch reads the device
device-limit                    storage      A limit of 60 MB/s of I/O for the job's control group | the device has little to do
device-limit-that-suffices      storage      A limit of 60 GB/s of I/O for the job's control group | a limit, and not the cause
small-shm                       none         8 MB of batches for a /dev/shm of 4 MB | nothing waits for it, calls fail
shm-that-suffices               none         8 MB of batches for a /dev/shm of 16 MB | no call fails
cold-mapping                    page-faults  2 workers touch random pages of a mapped file that is not cached | `mmap` is the only call
warm-mapping-decode             cpu          2 workers map a cached file and decode 30 ms | no page is read from storage
new-memory-per-batch            cpu          each batch touches 48 MiB of new memory | minor faults: kernel CPU time, no storage
flock-held-elsewhere            lock         workers wait for a `flock` that a process outside the loader holds for 20 ms | the readers' files are fast
fcntl-lock                      lock         4 workers, one at a time holds an `fcntl` lock for 20 ms | the holder sleeps: that is the lock's, too
sleeping-readers                sleep        2 workers sleep 30 ms per batch | neither storage nor decoding
workers-run-programs            child        2 workers start a program for each batch and wait for it | the child of a worker: a wait for data
pickles-of-24-mb                handover     batches of 24 MB are pickled through a pipe | workers are idle, the pipe is not
batches-in-shared-memory        none         batches of 24 MB stay in shared memory, only names are sent | healthy
new-workers-each-epoch          start        5 epochs of 15 steps, each with new workers that need 300 ms to get ready | once started they are fast
spawned-workers-each-epoch      start        3 epochs, each with spawned workers that import modules | imports are CPU time and file reads of the start
killed-reader                   start        a reader is killed in mid-batch, the next one needs 1.5 s to begin | no batch is sent in between; parts must add up
decode-on-request               cpu          a process decodes each batch when the training asks for it | equal batches, and a reader that rests in every step
archive-opened-per-sample       cpu          workers open an archive for each batch, and parse the names of its 20,000 files | nothing to decode, and little to read
dictionary-of-a-manager         handover     workers get 8 MB per batch from `Manager().dict()` | small batches: what is passed on goes to the readers
files-read-by-all-workers       cpu          each of 2 workers reads and decodes all samples | a data set that is not divided among the workers
pool-map-per-pass               cpu          `Pool.map` makes the samples of a whole pass before its steps | two equal workers, and one of them ends the wait
store-in-the-trainer            cpu          a process decodes for a store, which the training asks through TCP | the store's threads belong to the training's own process
healthy                         none         batches are ready before the training needs them | the plain case
healthy-readers-always-reading  none         readers read slow files all the time, batches come in time | reading is not waiting
healthy-decoding                none         readers decode for most of the time, batches come in time | decoding is not waiting
healthy-pool                    none         `Pool.imap`, batches come in time | idle workers wait for the lock of the task queue
healthy-random-steps            none         steps of 5 to 90 ms, batches come in time | no rhythm
readers are threads (``waits/threads.py``)
-----------------------------------------------------------------------------------------------------------------------------
threads-slow-files              storage      2 threads read slow files, `queue.Queue` | no process delivers anything
threads-simple-queue            storage      2 threads read slow files, `queue.SimpleQueue` | parking lot from Python 3.13 on
threads-executor                storage      slow files, `ThreadPoolExecutor.map` | waits for futures, each with a lock of its own
prefetch-thread                 storage      one thread reads one batch ahead | the smallest loader there is
trainer-in-a-thread             storage      2 threads read slow files, a third one trains | the main thread only waits for it
threads-decode                  gil          2 threads decode data in memory in Python | they wait for one another's GIL; processes would help
threads-locked-reads            lock         3 threads read and sleep under one `threading.Lock` | the lock's, not storage
threads-healthy                 none         2 threads read fast files, batches come in time | waits of the readers for room in the queue
npz-threads                     cpu          `ThreadPoolExecutor`, 2 threads read compressed .npz files | zlib releases the GIL: threads really run side by side
asyncio-thread                  network      an event loop in a thread requests samples with aiohttp, 2 batches ahead | one thread makes several batches at once
data come from a server (``waits/network.py``)
-----------------------------------------------------------------------------------------------------------------------------
http                            network      2 workers request samples over HTTP, 25 ms each | no data file, and not decoding
http-without-workers            network      the training thread requests each sample itself, over HTTP | neither readers nor files
https                           network      HTTP over TLS | the bytes are ciphertext
http-decode                     cpu          samples over HTTP at once, then 20 ms of decoding | network traffic that costs nothing
http-8-threads                  network      one worker process with 8 threads that fetch, as clients of object stores do | the maker is not the receiving thread
plain-socket                    network      one worker reads samples from a plain TCP socket, 15 ms each | `recv`, and no library that could be known
server-in-the-trace             network      the server is traced as well, its disk is slow | storage of the server; the chain crosses TCP
download-then-read              network      the first epoch downloads to local files, 3 more read them | two phases
slow-name-server                network      each worker needs 1 s before its connection is made, then all is fast | start, and network
http-healthy                    none         samples over HTTP, batches come in time | requests are not waits
the training thread reads itself, or waits for something else (``waits/alone.py``)
-----------------------------------------------------------------------------------------------------------------------------
no-workers-slow-files           storage      `num_workers=0`, slow files | no wait for another thread
no-workers-decode               cpu          `num_workers=0`, decoding for half of the time | without spans decoding and training look alike
no-workers-healthy              none         `num_workers=0`, fast files, a training run that computes on the CPU | reads of 1 % of the time
own-thread-pool                 own-work     each step waits for a thread of its own (`submit().result()`), batches come in time | a wait, but not for data
barrier-of-compute-threads      own-work     3 threads compute for up to 30 ms a step and meet the training at a barrier | they look like readers, and read nothing
device-process                  own-work     a process of its own works for 20 ms on each batch that the training sends it | like a loader, but not for data
bounded-output                  own-work     a process takes the results from a queue of 2 in 25 ms each | the training waits for room, not for data
lock-of-checkpoint-thread       own-work     a thread holds a lock while it writes checkpoints, and each step needs the lock | the training stalls, but not for data
join-of-saver-threads           own-work     every tenth step waits for the thread that saves the last checkpoint | each checkpoint has a thread of its own, which reads nothing
queue-of-a-writer-thread        own-work     a thread writes the results from a `queue.Queue(2)` in 30 ms each | the training waits for room, and the thread reads nothing
own-thread-reads                storage      the trainer lets a thread of its own read each batch and waits for it | a loader without read-ahead
program-per-step                child        each step runs a program (`subprocess.run`), batches come in time | `waitpid` is not a wait for data
helper-process-per-step         child        each step asks a helper process and waits for its answer | an answer through a pipe looks like a batch
polling-trainer                 storage      slow files, the trainer polls with a timeout of 5 ms | a wait in many parts that end by a timer
looks-and-sleeps                storage      slow files, the trainer looks for a batch and sleeps 2 ms in turn | no call waits for the reader
sleeps-until-filled             storage      slow files, `while queue.empty(): sleep(0.001)` before each batch | looking is not a call, and no call waits
checkpoints                     checkpoint   checkpoints take 40 % of the training, batches come in time | the training stalls, but not for data
checkpoints-in-a-thread         none         a thread writes the checkpoints during the training | nothing stalls
checkpoints-and-slow-files      storage      slow files and checkpoints | both stall the training, for different reasons
checkpoint-processes            own-work        each fifth step waits for the process that writes the last checkpoint, and starts the next one | a child that calls on files, and reads nothing
pool-map-beside-loader          own-work        each step waits for `Pool.map` of two processes, batches come in time | processes that answer, like readers that deliver
lock-of-a-reader                own-work        a thread reads ahead under a lock of the library, which the training needs, too, to note its results | the holder is the reader
two ranks (``waits/ranks.py``)
-----------------------------------------------------------------------------------------------------------------------------
ranks-one-slow                  storage      2 ranks meet at a barrier, the files of rank 1 are slow | rank 0 waits for rank 1 and not for its own readers
ranks-healthy                   none         2 ranks meet at a barrier, batches come in time | waits for each other are short
ranks-gloo-one-slow             storage      2 ranks of gloo, the files of rank 1 are slow | a loop thread receives what rank 0 waits for
ranks-spawned                   storage      2 ranks by `torch.multiprocessing.spawn`, each with 2 workers of PyTorch's loader | workers are not ranks
torchrun-one-slow               storage      (spans) torchrun, 2 ranks of DistributedDataParallel, the files of rank 1 are slow | rank 0 waits within its backward
several programs (``waits/partners.py``)
-----------------------------------------------------------------------------------------------------------------------------
files-of-a-producer             storage         another program writes each batch to a file, the training looks for it and sleeps 4 ms in turn | no call waits for the producer
files-of-a-fast-producer        none            the same with fast files: batches come in time | looks that find a file at once
decoder-behind-a-socket         cpu             a thread of the training asks a decoder for each batch, another program with a Unix socket | the thread only receives
ranks-meet-by-files             other-rank       2 ranks tell each other by files how far they are, rank 1 reads 60 ms per step itself | no call waits for the other rank
a program in C or C++, without Python (``waits/programs.py``)
-----------------------------------------------------------------------------------------------------------------------------
c-condition                     storage      `pthread_cond_wait`, slow files | no fork, no pipe, no Python
c-shared-condition              storage      a process reads, `pthread_cond_wait` in memory that both map, slow files | no pipe, no semaphore; only the condition is shared
c-semaphore                     storage      `sem_wait`, slow files | the waiter's semaphore is not a lock
c-inline-futex                  storage      a queue that spins and then calls futex by an instruction of its own, slow files | the wait is not visible: unknown
c-syscall-futex                 storage      a futex by the function `syscall`, slow files | visible only with a hook of `syscall`
c-eventfd                       storage      eventfd, slow files, with a second loader that is far ahead | all eventfds share one inode
c-decode                        cpu          `pthread_cond_wait`, 25 ms of decoding per batch | CPU time of a thread
c-uring                         storage      `pthread_cond_wait`, reads through an io_uring ring, 20 ms each | the reader waits in io_uring_enter
c-uring-decode                  cpu          `pthread_cond_wait`, 4 reads in flight in an io_uring ring, 25 ms of decoding per batch | requests take no time of a thread
c-cold-mapping                  page-faults  `pthread_cond_wait`, random pages of a mapped file that is not cached | page faults of a thread
c-healthy                       none         `pthread_cond_wait`, fast files | healthy
cpp-async-slow-files            storage      `std::async` in C++, one batch ahead, slow files | each batch has a thread of its own; a future's futex is in libstdc++
cpp-pool-decode                 cpu          2 `std::thread` in C++, `std::condition_variable` for tasks, `std::promise` for batches | CPU time of threads
PyTorch's DataLoader (``waits/pytorch.py``)
-----------------------------------------------------------------------------------------------------------------------------
torch-slow-files                storage      DataLoader, 2 workers, slow files | tensors pass through descriptors and a thread of the worker
torch-slow-files-file-system    storage      slow files, tensors by `file_system` | files in /dev/shm are not data files
torch-decode                    cpu          DataLoader, 2 workers, 10 ms of decoding per sample | CPU
torch-read-20-decode-10         storage      DataLoader, 2 workers, samples read in 20 ms and decoded in 10 ms | both take part
torch-healthy                   none         DataLoader, 2 workers, batches come in time | healthy
torch-large-tensors             handover     DataLoader, batches of 24 MB as tensors in shared memory | memory is not storage; descriptors take their time
torch-many-small-tensors        handover     DataLoader, 400 small tensors per batch | each passes as a descriptor
torch-pickled-arrays            handover     DataLoader, batches of 24 MB as bytes | they are pickled through a pipe
torch-new-workers-each-epoch    start        DataLoader without `persistent_workers`, 5 epochs, workers need 150 ms to begin | their end is a wait, too
torch-spawned-workers           start        DataLoader with spawned workers | each imports PyTorch
torch-no-workers-slow-files     storage      DataLoader with `num_workers=0`, slow files | no wait for another thread
torch-decode-in-memory          cpu          DataLoader, 2 workers compute on data in memory | no data file is opened
torch-iterable-slow-files       storage      an IterableDataset, 2 workers, slow files | workers are not told what to read
torch-nested-lists              handover     DataLoader, batches of 50,000 numbers in lists and dictionaries | most of the wait is unpickling in the training thread
torch-iterator-per-step         start        `next(iter(loader))` in each step, 2 workers | each step forks workers, and takes one batch from them
data come through libraries of formats, in PyTorch's DataLoader (``waits/formats.py``)
-----------------------------------------------------------------------------------------------------------------------------
webdataset-slow-tars            storage      webdataset, tars on a slow disk | a stream: no file per sample, and no index that is requested
webdataset-jpeg                 cpu          (spans) webdataset, pictures are decoded | decoding in a library that releases the GIL
mds-slow-shards                 storage      mosaicml-streaming, shards on a slow disk | threads of each worker prepare shards, workers agree by files in /dev/shm
datasets-jpeg                   cpu          (spans) Hugging Face datasets, pictures of a mapped Arrow file are decoded | the data come from a mapping, which is cached
h5py-slow-chunks                storage      h5py, chunks on a slow disk | reads by a library in C under its own lock
h5py-gzip                       cpu          (spans) h5py, compressed chunks | reading and unpacking are one call of the library
zarr-slow-chunks                storage      zarr, chunks are files on a slow disk | an event loop and threads in each worker read, the worker's main thread waits for them
lmdb-cold                       page-faults  LMDB, random values of a table that is not cached | the table is mapped: `mmap` is the only call
gzip-json-lines                 cpu          (spans) gzip and JSON line by line, `prefetch_factor=1`, `persistent_workers`, two epochs | pure Python, small reads
sqlite-locked                   lock         SQLite, a process outside the training locks the table for 20 of 25 ms | SQLite polls: it sleeps and asks for the lock again
gzip-program                    child        workers read from `gzip -dc` through a pipe | a program started by a worker has the CPU time; a pipe that is not a hand-over
tar-program-slow-disk           storage      workers read from `tar -xO` through a pipe, tars on a slow disk | a program started by a worker waits for the disk
spawned-workers-jpeg            start        (spans) spawned workers, 2 epochs without `persistent_workers` | imports are CPU time and file reads of the start
readers run under frameworks, servers and in other ways (``waits/frameworks.py``)
-----------------------------------------------------------------------------------------------------------------------------
lightning-slow-files            storage      (spans) Lightning, slow files | hooks and closures between the loader and the step
lightning-healthy               none         Lightning, a training run that computes on the CPU, batches come in time | threads of the backward, CPU time that is not a reader's
joblib-decode                   cpu          joblib's processes, its generator | a manager thread, a feeder thread and a callback thread deliver
joblib-large-results            handover     joblib, batches of 24 MB | they are pickled through a pipe
aiohttp-worker                  network      (spans) one worker requests 8 samples at a time with aiohttp | an event loop in the worker, `epoll` and no blocking read
traced-feature-server           cpu          2 workers ask a server of one thread for features, through a Unix socket; it is traced | the CPU time is another process's
posix-ipc-ring                  storage      a reader process, a ring in shared memory, named semaphores of posix_ipc | semaphores are files that both map
processes-and-a-thread          storage      processes read slow files, a thread of the trainer copies their batches | a thread between the readers and the training
threads-in-a-worker             gil          (spans) one worker decodes in 4 threads, in Python | its threads take turns: more threads would not help, more processes would
no-workers-slow-files-spans     storage      (spans) DataLoader with `num_workers=0`, slow files | no wait for another thread
no-workers-jpeg-spans           cpu          (spans) DataLoader with `num_workers=0`, pictures are decoded, steps compute on the CPU | both are CPU time of one thread
pickled-records-spans           handover     (spans) batches are lists of 40,000 small records of Python | pickled by a thread of the worker, unpickled by the training
forkserver-read-and-decode      storage      (spans) workers of a fork server, which has imported PyTorch, read for 10 ms and decode for 6 ms per sample | both take part
prefetch-one-healthy            none         (spans) `prefetch_factor=1`, `persistent_workers`, `pin_memory`, two epochs, batches come in time | each worker is one batch ahead
=============================== ============ ================================================================================
"""

import argparse
import collections
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "waits"))
import job as jobs  # noqa: E402,F401 importing registers them
from clock import OTHER, summary  # noqa: E402
from machine import own_group  # noqa: E402
from registry import JOBS, prepare  # noqa: E402

JOB = os.path.join(HERE, "waits", "job.py")

BIN = os.environ.get("DLIO_BIN_DIR", os.path.join(HERE, "..", "..", "target", "dist", "bin"))
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
TORCH = os.environ.get("DLIO_TORCH_VENV", os.path.join(CACHE, "dlio-torch-venv"))
# Permitted error of a share of the training.
SHARE = 0.05
# Permitted difference of a cause from the largest one, as a share of the wait.
CAUSE = 0.15
# Above this share, the smaller of two causes counts, too.
BOTH = 0.25
SECONDS_MAX = 90

# The claims of a report, by their names in clock.py: patterns for its sentences.
CLAIMS = {
    "waited": r"(Training|The main loop) waited for data|(training|the main loop) spent .* waiting for (batches|data)",
    "no wait": r"hardly waited for (data|its readers)|leave (data loading|the readers) unchanged",
    "storage": r"[Ss]torage was the bottleneck|readers wait for single reads",
    "not storage": r"[Ss]torage was not the bottleneck|faster storage would save nothing",
    "decoding": r"^(?!.*if readers compute: ).*\bdecod",
    "both": r"both file calls and work",
    "more readers": r"(?<!nor )(?<!there is none: )(more readers|twice as many readers|(larger|increase|double|raise) num_workers)(?! where CPUs)",
    "no loader": r"no process takes batches from readers",
    "thrash": r"^cache-thrash: ",
    "I/O limit": r"^io-limit: ",
    "small shm": r"^shm-small: ",
    "trains nothing": r"do not show that (it|they) train|shows no training",
}

Found = collections.namedtuple("Found", "share cause start")
Row = collections.namedtuple("Row", "job truth found result false")


def find(report):
    """Returns the report's share of the training spent waiting, its first cause, and its share of the readers' start.
    The share is None and the cause "unknown" if the report does not know it. Only this and CLAIMS depend on the wording."""
    groups = [group for group in report["training"] if group["waited_ns"] is not None]
    trained = sum(group["trained_ns"] for group in groups)
    text = " ".join(report["verdict"])
    answer = re.search(r"(?:Training|The main loop) (hardly waited for data|hardly waited for its readers|waited for its readers to start|waited for data)", text)
    if not trained or not answer:
        return find_own_reads(report, text)
    share = sum(group["waited_ns"] for group in groups) / trained
    start = sum(group["wait_start_ns"] or 0 for group in groups) / trained
    if answer[1].startswith("hardly"):
        cause = "checkpoint" if re.search(r"stalled for .* wrote and synced", text) else "none"
    elif answer[1].endswith("start") or start > share / 2:
        cause = "start"
    else:
        named = {
            "during that wait is unknown": "unknown", "both file calls": "storage+cpu", "outside file calls": "cpu",
            "torage was the bottleneck": "storage",
        }
        cause = next((cause for phrase, cause in named.items() if phrase in text), "unknown")
    causes = collections.Counter()
    for group in groups:
        causes.update(group.get("causes") or {})
    # A job's clock does not tell CPU time in calls from CPU time between them.
    causes["cpu"] += causes.pop("file-calls", 0)
    if any(causes.values()) and cause not in ("none", "checkpoint"):
        most = causes.most_common(1)[0][0]
        cause = CALLED.get(most, most)
    return Found(share, cause, start)


def find_own_reads(report, text):
    """Returns the report's result for a script whose main thread reads its data itself."""
    reads = [process["own_reads"] for process in report["processes"] if process.get("own_reads")]
    if len(reads) != 1 or "at least that long for data, in file calls" not in text:
        return Found(None, "unknown", None)
    return Found(reads[0]["read_ns"] / (reads[0]["to_ts"] - reads[0]["from_ts"]), "storage", None)


# Causes with other names in the analyzer.
CALLED = {"hand-over": "handover", "outside-calls": "unknown", "not-asked": "unknown"}


def sentences(report):
    """Returns the sentences that a user reads first: those of the verdict and of findings that fired."""
    yield from report["verdict"]
    for finding in report["findings"]:
        if finding["state"] == "fired" and not finding["silenced_by"]:
            yield f"{finding['id']}: {finding['says']}; {finding['remedy']}"


def true_causes(job, truth):
    """Returns the correct causes of a job: the largest, and those that are nearly as large."""
    trained, waited = truth["trained_s"], truth["waited_s"]
    parts = {cause: s for cause, s in truth["causes"].items() if cause in OTHER or waited >= SHARE * trained}
    most, total = max(parts.values(), default=0), sum(parts.values())
    causes = {cause for cause, seconds in parts.items() if seconds > 0 and seconds >= most - CAUSE * total}
    # A wait that is not for data may or may not be named.
    stands = any(cause in OTHER and cause != "checkpoint" for cause in causes)
    if most < SHARE * trained or waited < (SHARE + 0.02) * trained and (stands or not causes - {truth["cause"]}):
        if "checkpoint" not in causes:
            causes.add("none")
    # Work on a busy host needs the CPU, and a free one. Both causes are true if neither is small.
    work = {cause: parts.get(cause, 0) for cause in ("cpu", "no-cpu", "gil")}
    if sum(work.values()) >= most - CAUSE * total:
        causes |= {cause for cause, seconds in work.items() if seconds >= BOTH * total > 0}
    if min(parts.get("storage", 0), sum(work.values())) >= BOTH * total > 0:
        causes.add("storage+cpu")
    return causes | (set(job.also) if causes & {job.cause, truth["cause"]} else set())


def compare(job, truth, report):
    found, share = find(report), truth["waited_s"] / truth["trained_s"]
    is_share = found.share is None or abs(found.share - share) <= SHARE
    if found.cause == "unknown" and is_share:
        result = "unknown"
    else:
        right = found.cause in true_causes(job, truth)
        result = "right" if right and is_share else "wrong cause" if is_share else "wrong share" if right else "wrong"
    fired = {finding["id"] for finding in report["findings"] if finding["state"] == "fired"}
    # On a busy host, other processes take the CPUs before a quota or a mask does.
    expected = {job.finding, "noisy-neighbor"} if job.cause == "no-cpu" else {job.finding}
    if result == "right" and job.finding and found.cause == job.cause and not fired & expected:
        result = f"wrong: no finding {job.finding}"
    said = list(sentences(report))
    advised = [*said, report["headline"].get("next") or ""]
    unsaid = [pattern for pattern in job.says if not any(re.search(pattern, sentence) for sentence in advised)]
    if result == "right" and found.cause == job.cause and unsaid:
        result = f"wrong: no sentence {unsaid[0]}"
    claims = [*truth["not"], *job.never, "trains nothing", *(["no loader"] if job.has_workers else [])]
    false = [
        (claim, sentence) for sentence in said for claim in dict.fromkeys(claims) if re.search(CLAIMS[claim], sentence)
    ]
    start = truth["causes"].get("start", 0) / truth["trained_s"]
    if found.start is not None and abs(found.start - start) > SHARE:
        said = next((sentence for sentence in report["verdict"] if "starting" in sentence), report["verdict"][0])
        false.append((f"start {found.start:.0%} instead of {start:.0%}", said))
    return Row(job, truth, found, result, false)


def python_for(job):
    """The Python that runs a job."""
    if not (job.torch or job.needs or job.spans):
        # Not a shim that starts it.
        return os.path.realpath(sys.executable)
    return os.path.join(TORCH, "bin", "python")


def wheel():
    """The path of the wheel with the package `dliotrace`, or None."""
    built = glob.glob(os.path.join(BIN, "..", "wheel", "*.whl"))
    return os.environ.get("DLIO_WHEEL") or max(built, key=os.path.getmtime, default=None)


@functools.cache
def lacks(python, module):
    """Returns True if this Python does not find the module."""
    code = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    return subprocess.run([python, "-c", code], check=False).returncode != 0


def missing(job):
    """Returns the requirements of a job that this host lacks, with the command that installs them; empty if nothing is missing."""
    if (job.torch or job.needs or job.spans) and not os.path.exists(os.path.join(TORCH, ".installed")):
        return "PyTorch; `make setup-torch` installs it (6 GB)"
    if job.group and not own_group(job.group):
        return f"a separate control group for {job.group}: run as root, or delegate one to this user"
    if job.mounts and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        return "a mount namespace: run as root"
    modules = [module for module in job.needs if lacks(python_for(job), module)]
    if modules:
        return f"{', '.join(modules)}; `make setup-torch` installs what jobs need"
    return "a wheel; `make wheel` builds it" if job.spans and not wheel() else ""


def command_of(job, trace):
    """The command that traces a job."""
    program = [JOB, job.name]
    if job.spans:
        return [python_for(job), "-m", "dliotrace", "run", "--quiet", "--torch", "-o", trace, *program]
    return [os.path.join(BIN, "dlio"), "trace", "-o", trace, "--", python_for(job), *program]


def environment_of(job):
    """The environment of a job, whose data are made in it, in the current directory."""
    if not job.needs:
        environment = {**os.environ, "LD_PRELOAD": prepare(job)}
    else:
        # The libraries are on the host where the job runs.
        made = subprocess.run(
            [python_for(job), JOB, "--prepare", job.name], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        if made.returncode:
            raise RuntimeError(f"{job.name}: cannot make its data: exit status {made.returncode}\n{made.stderr}")
        environment = {**os.environ, "LD_PRELOAD": made.stdout.splitlines()[-1]}
    if job.spans:
        if not os.path.exists("package"):
            zipfile.ZipFile(wheel()).extractall("package")
        environment.update(PYTHONPATH=os.path.abspath("package"), DLIO_LIB=os.path.join(BIN, "..", "lib"))
    return environment


def run(job, trace):
    """Runs a job under the tracer, in the current directory. Returns its truth, and the report."""
    environment = environment_of(job)
    for _ in range(job.runs):
        # A report is about the last run.
        truth, causes = collections.Counter(), collections.Counter()
        ended = subprocess.run(
            command_of(job, trace), env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        if ended.returncode:
            raise RuntimeError(f"{job.name}: exit status {ended.returncode}\n{ended.stderr}")
        last = json.loads(ended.stdout.splitlines()[-1])
        truth.update({name: last[name] for name in ("trained_s", "waited_s")})
        causes.update(last["causes"])
    return summary(truth["trained_s"], truth["waited_s"], causes), report_of(trace)


def report_of(trace):
    """Returns the analyzer's report of a trace."""
    command = [os.path.join(BIN, "dlio-analyze"), trace, "--format", "json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def kept(job, folder):
    """Returns the truth of a job that was kept there, and the analyzer's current report of its trace."""
    with open(os.path.join(folder, f"{job.name}.truth.json")) as file:
        return json.load(file), report_of(os.path.join(folder, job.name))


def percent(share):
    return "-" if share is None else f"{100 * share:.0f}"


def cells(row):
    """The columns of the table."""
    truth = row.truth
    total = sum(truth["causes"].values()) or 1
    parts = sorted(truth["causes"].items(), key=lambda part: -part[1])
    built = "" if row.job.cause in true_causes(row.job, truth) else f" (built in: {row.job.cause})"
    causes = ", ".join(f"{cause} {100 * seconds / total:.0f}" for cause, seconds in parts if seconds >= 0.1 * total)
    return [
        row.job.name, truth["cause"] + built, causes, percent(truth["waited_s"] / truth["trained_s"]), percent(row.found.share),
        row.found.cause, row.result, ", ".join(dict.fromkeys(claim for claim, _ in row.false)),
    ]


TITLES = ["job", "truth", "its clock, %", "waited, %", "found, %", "cause found", "result", "false claims"]


def print_rows(rows, markdown):
    if markdown:
        print("| " + " | ".join(TITLES) + " |")
        print("|" + "---|" * len(TITLES))
        for row in rows:
            print("| " + " | ".join(cells(row)) + " |")
    else:
        table = [TITLES, *map(cells, rows)]
        widths = [max(map(len, column)) for column in zip(*table)]
        for line in table:
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    false = [(row.job.name, claim, sentence) for row in rows for claim, sentence in row.false]
    print()
    if markdown:
        print("## False sentences\n\n| job | claim | sentence |\n|---|---|---|")
    for name, claim, sentence in false:
        print(f"| {name} | {claim} | {sentence} |" if markdown else f"{name}: {claim}: {sentence}")
    count = collections.Counter(row.result.split()[0] for row in rows)
    print(f"\n{len(rows)} jobs: {count['right']} right, {count['unknown']} unknown, {count['wrong']} wrong; "
          f"{len({(name, sentence) for name, _, sentence in false})} false sentences in {sum(bool(row.false) for row in rows)} jobs")


# One job of each kind, among those that need only Python and a C compiler.
SHORT = [
    "slow-files", "decode", "fcntl-lock", "workers-run-programs", "batches-in-shared-memory", "new-workers-each-epoch",
    "healthy", "threads-slow-files", "http", "no-workers-slow-files", "own-thread-pool", "checkpoints",
    "ranks-one-slow", "c-condition", "c-uring", "cpu-quota", "device-limit",
]


def is_true(row):
    """Returns True if no claim is false and no wrong finding fired."""
    return not row.false and not row.result.startswith("wrong")


def judged(job, tries, again, folder):
    """Runs and compares a job, up to ``tries`` times; returns the number of tries that are left, too. Traces, truths and
    reports are kept in the directory."""
    trace = os.path.join(folder, job.name)
    for left in reversed(range(1 if again else tries)):
        if not again:
            shutil.rmtree(trace, ignore_errors=True)
        truth, report = kept(job, again) if again else run(job, trace)
        for name, value in (("truth", truth), ("report", report)):
            with open(os.path.join(folder, f"{job.name}.{name}.json"), "w") as file:
                json.dump(value, file, indent=1)
        yield compare(job, truth, report), left


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", metavar="JOB", help="run these jobs instead of all")
    parser.add_argument("--short", action="store_true", help="run one job of each kind")
    parser.add_argument("--tries", type=int, default=1, metavar="N", help="run a job that comes out wrong up to N times")
    parser.add_argument("--list", action="store_true", help="print the jobs and what is built into them")
    parser.add_argument("--keep", metavar="DIR", help="keep traces, truths and reports in DIR/JOB")
    parser.add_argument("--again", metavar="DIR", help="judge what --keep DIR kept, without running the jobs")
    parser.add_argument("--markdown", action="store_true", help="print tables for a document")
    options = parser.parse_args()
    undocumented = [name for name in JOBS if f"\n{name} " not in __doc__]
    assert not undocumented, f"the table above lacks {undocumented}"
    unknown = [name for name in options.jobs if name not in JOBS]
    if unknown:
        parser.error(f"no such job: {', '.join(unknown)}; --list prints all")
    chosen = [JOBS[name] for name in options.jobs or (SHORT if options.short else JOBS)]
    if options.list:
        for job in chosen:
            print(f"{job.name:32}{job.cause:12}{job.about}")
        return 0
    if not os.path.exists(os.path.join(BIN, "dlio-analyze")):
        parser.error(f"{BIN}: no dlio-analyze; run `make build`, or set DLIO_BIN_DIR")
    skipped = collections.Counter(filter(None, map(missing, chosen)))
    for lacking, number in skipped.items():
        print(f"skipped: {number} jobs without {lacking}", file=sys.stderr)
    rows, failed = [], False
    keep = os.path.abspath(options.keep) if options.keep else None
    again = os.path.abspath(options.again) if options.again else None
    data = tempfile.mkdtemp(prefix="dlio-jobs-")
    os.chdir(data)
    try:
        for job in (job for job in chosen if not missing(job)):
            try:
                row = next(row for row, left in judged(job, options.tries, again, keep or data) if is_true(row) or not left)
            except (OSError, RuntimeError, subprocess.SubprocessError, ValueError) as error:
                print(f"{job.name} failed: {error}", file=sys.stderr)
                failed = True
                continue
            rows.append(row)
            print(f"{job.name}: {row.result}", file=sys.stderr, flush=True)
            if not keep:
                shutil.rmtree(os.path.join(data, job.name), ignore_errors=True)
    finally:
        os.chdir("/")
        shutil.rmtree(data, ignore_errors=True)
    print_rows(rows, options.markdown)
    return int(failed or not all(map(is_true, rows)))


if __name__ == "__main__":
    sys.exit(main())
