"""Jobs whose workers read data through other people's libraries of formats, in PyTorch's DataLoader."""

import gzip
import io
import json
import os
import random
import sqlite3
import subprocess
import tarfile

from batches import Samples, of_workers, own, stream, train_model
from loaders import untraced
from registry import Made, job

KIB64 = 64 << 10


def jpeg(seed, size=(640, 480)):
    """A picture with some detail."""
    from PIL import Image

    noise = random.Random(seed).randbytes(3 * size[0] // 8 * size[1] // 8)
    small = Image.frombytes("RGB", (size[0] // 8, size[1] // 8), noise)
    into = io.BytesIO()
    small.resize(size).save(into, "JPEG", quality=90)
    return into.getvalue()


def decoded(content):
    """A picture as an array, as torchvision's transforms make it."""
    import numpy
    from PIL import Image

    return numpy.array(Image.open(io.BytesIO(content)).convert("RGB").resize((224, 224)))


def worker_share(names):
    """Those of the names that this worker reads."""
    from torch.utils.data import get_worker_info

    worker = get_worker_info()
    return names[worker.id :: worker.num_workers]


# ---- shards --------------------------------------------------------------------------------------------------------------


def write_tars(make, ending, slow=""):
    """Four tars of 80 samples."""

    def create(path):
        for shard in range(4):
            with tarfile.open(os.path.join(path, f"{shard:06}{slow}.tar"), "w") as tar:
                for sample in range(80):
                    content = make(shard * 80 + sample)
                    entry = tarfile.TarInfo(f"{shard}-{sample}.{ending}")
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))

    return create


TARS = Made("tars", write_tars(lambda _: os.urandom(40 << 10), "bin", ".read-4ms"))
JPEG_TARS = Made("jpeg-tars", write_tars(jpeg, "jpg"))


def tars(data):
    import webdataset

    names = sorted(data.path(name) for name in os.listdir(data.name))
    return webdataset.WebDataset(names, shardshuffle=False, workersplitter=webdataset.split_by_worker)


@job("storage", TARS, torch=True, needs=("webdataset",))
def webdataset_slow_tars():
    """webdataset, tars on a slow disk | a stream: no file per sample, and no index that is requested"""
    data = stream(lambda: (len(sample["bin"]) for sample in tars(TARS)), "storage")
    return train_model(of_workers(data, "storage"), 0.018)


@job("cpu", JPEG_TARS, torch=True, needs=("webdataset", "PIL"), spans=True)
def webdataset_jpeg():
    """(spans) webdataset, pictures are decoded | decoding in a library that releases the GIL"""
    data = stream(lambda: (decoded(sample["jpg"]) for sample in tars(JPEG_TARS)), "no-cpu")
    return train_model(of_workers(data, "no-cpu"), 0.006)


def write_mds(path):
    from streaming import MDSWriter

    with MDSWriter(out=path, columns={"content": "bytes"}, size_limit=2 << 20) as out:
        for _ in range(400):
            out.write({"content": os.urandom(KIB64)})
    with open(os.path.join(path, "index.json")) as file:
        index = json.load(file)
    for shard in index["shards"]:
        name = shard["raw_data"]["basename"]
        shard["raw_data"]["basename"] = f"{name}.read-8ms"
        os.rename(os.path.join(path, name), os.path.join(path, f"{name}.read-8ms"))
    with open(os.path.join(path, "index.json"), "w") as file:
        json.dump(index, file)


MDS = Made("mds", write_mds)


@job("storage", MDS, torch=True, needs=("streaming",))
def mds_slow_shards():
    """mosaicml-streaming, shards on a slow disk |
    threads of each worker prepare shards, workers agree by files in /dev/shm"""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    class Clocked(StreamingDataset):
        def __getitem__(self, at):
            own("storage").sample()
            return len(super().__getitem__(at)["content"])

    clean_stale_shared_memory()
    data = Clocked(local=MDS.name, shuffle=False, batch_size=4)
    return train_model(of_workers(data, "storage"), 0.018)


# ---- tables and arrays ---------------------------------------------------------------------------------------------------


def write_pictures(path):
    from datasets import Dataset

    Dataset.from_dict({"image": [jpeg(seed) for seed in range(480)]}).save_to_disk(path)


PICTURES = Made("pictures", write_pictures)


@job("cpu", PICTURES, torch=True, needs=("datasets", "PIL"), spans=True)
def datasets_jpeg():
    """(spans) Hugging Face datasets, pictures of a mapped Arrow file are decoded |
    the data come from a mapping, which is cached"""
    from datasets import load_from_disk

    table = load_from_disk(PICTURES.name)
    data = Samples(lambda index: decoded(table[index]["image"]), 480, "no-cpu")
    return train_model(of_workers(data, "no-cpu"), 0.006)


def write_h5(compression, slow=""):
    def create(path):
        import h5py
        import numpy

        shape = (400, 512, 1024) if compression else (160, 256, 256)
        samples = numpy.random.default_rng(0).integers(0, 64, shape, "uint8")
        with h5py.File(os.path.join(path, f"samples{slow}.h5"), "w") as file:
            file.create_dataset("samples", data=samples, chunks=(1, *shape[1:]), compression=compression)

    return create


def h5_samples(path, count, rest):
    """Each worker opens the file itself, at its first sample."""
    files = {}

    def load(index):
        import h5py

        if os.getpid() not in files:
            files[os.getpid()] = h5py.File(path, "r")["samples"]
        return int(files[os.getpid()][index].sum())

    return Samples(load, count, rest)


H5 = Made("h5", write_h5(None, ".read-15ms"))
H5_GZIP = Made("h5-gzip", write_h5("gzip"))


@job("storage", H5, torch=True, needs=("h5py",))
def h5py_slow_chunks():
    """h5py, chunks on a slow disk | reads by a library in C under its own lock"""
    return train_model(of_workers(h5_samples(H5.path("samples.read-15ms.h5"), 160, "storage"), "storage"), 0.015)


@job("cpu", H5_GZIP, torch=True, needs=("h5py",), spans=True)
def h5py_gzip():
    """(spans) h5py, compressed chunks | reading and unpacking are one call of the library"""
    return train_model(of_workers(h5_samples(H5_GZIP.path("samples.h5"), 400, "no-cpu"), "no-cpu"), 0.005)


def write_zarr(path):
    import numpy
    import zarr

    path = os.path.join(path, "array.read-20ms")
    array = zarr.create_array(path, shape=(160, KIB64), chunks=(1, KIB64), dtype="uint8", compressors=None)
    array[:] = numpy.frombuffer(os.urandom(160 * KIB64), "uint8").reshape(160, KIB64)


ZARR = Made("zarr", write_zarr)


@job("storage", ZARR, torch=True, needs=("zarr",))
def zarr_slow_chunks():
    """zarr, chunks are files on a slow disk |
    an event loop and threads in each worker read, the worker's main thread waits for them"""
    arrays = {}

    def load(index):
        import zarr

        if os.getpid() not in arrays:
            arrays[os.getpid()] = zarr.open_array(ZARR.path("array.read-20ms"), mode="r")
        return int(arrays[os.getpid()][index].sum())

    return train_model(of_workers(Samples(load, 80, "storage"), "storage"), 0.04)


def write_lmdb(path):
    import lmdb

    with lmdb.open(path, map_size=1 << 30) as table, table.begin(write=True) as transaction:
        for key in range(3000):
            transaction.put(b"%08d" % key, os.urandom(KIB64))


LMDB = Made("lmdb", write_lmdb)


@job("page-faults", LMDB, torch=True, needs=("lmdb",))
def lmdb_cold():
    """LMDB, random values of a table that is not cached | the table is mapped: `mmap` is the only call"""
    import lmdb

    keys = list(range(3000))
    random.Random(1).shuffle(keys)
    tables = {}
    with open(LMDB.path("data.mdb"), "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def load(index):
        if os.getpid() not in tables:
            table = lmdb.open(LMDB.name, readonly=True, lock=False, readahead=False)
            tables[os.getpid()] = table.begin(buffers=True)
        return len(bytes(tables[os.getpid()].get(b"%08d" % keys[index])))

    return train_model(of_workers(Samples(load, 2400, "page-faults"), "page-faults", batch=16), 0.004)


def write_lines(path):
    numbers = random.Random(0)
    for shard in range(4):
        with gzip.open(os.path.join(path, f"{shard}.jsonl.gz"), "wt", compresslevel=6) as file:
            for _ in range(400):
                print(json.dumps({"tokens": [byte * 199 for byte in numbers.randbytes(6000)]}), file=file)


LINES = Made("lines", write_lines)


@job("cpu", LINES, torch=True, needs=("numpy",), spans=True)
def gzip_json_lines():
    """(spans) gzip and JSON line by line, `prefetch_factor=1`, `persistent_workers`, two epochs | pure Python, small reads"""

    def samples():
        for name in worker_share(sorted(os.listdir(LINES.name))):
            with gzip.open(LINES.path(name), "rt") as file:
                for line in file:
                    yield len(json.loads(line)["tokens"])

    data = stream(samples, "no-cpu")
    loader = of_workers(data, "no-cpu", batch=32, combine=sum, prefetch_factor=1, persistent_workers=True)
    return train_model(loader, 0.003, epochs=2)


# ---- databases and programs ----------------------------------------------------------------------------------------------


def write_sqlite(path):
    with sqlite3.connect(os.path.join(path, "samples.db")) as table:
        table.execute("create table samples (id integer primary key, content blob)")
        table.executemany("insert into samples values (?, ?)", ((key, os.urandom(16 << 10)) for key in range(160)))


SQLITE = Made("sqlite", write_sqlite)
WRITER = """
import random, sqlite3, sys, time
table = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
print(flush=True)
while True:
    table.execute("begin exclusive")
    time.sleep(random.uniform(0.015, 0.025))
    table.execute("rollback")
    time.sleep(0.005)
"""


@job("lock", SQLITE, also=("sleep",), torch=True, needs=("numpy",))
def sqlite_locked():
    """SQLite, a process outside the training locks the table for 20 of 25 ms |
    SQLite polls: it sleeps and asks for the lock again"""
    import sys

    command = [sys.executable, "-c", WRITER, SQLITE.path("samples.db")]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, env=untraced())
    writer.stdout.readline()
    tables = {}

    def load(index):
        if os.getpid() not in tables:
            tables[os.getpid()] = sqlite3.connect(SQLITE.path("samples.db"), timeout=60)
        query = "select content from samples where id = ?"
        ((content,),) = tables[os.getpid()].execute(query, (index,)).fetchall()
        return len(content)

    try:
        return train_model(of_workers(Samples(load, 80, "lock"), "lock", batch=2), 0.012)
    finally:
        writer.kill()
        writer.wait()


def write_gz(path):
    words = random.Random(0).randbytes(1 << 16)
    for shard in range(4):
        with gzip.open(os.path.join(path, f"{shard}.gz"), "wb", compresslevel=1) as file:
            numbers = random.Random(shard)
            for _ in range(100 << 10):
                at = numbers.randrange(len(words) - 1024)
                file.write(words[at : at + 1024])


GZ = Made("gz", write_gz)


@job("child", GZ, also=("cpu",), torch=True, needs=("numpy",))
def gzip_program():
    """workers read from `gzip -dc` through a pipe |
    a program started by a worker has the CPU time; a pipe that is not a hand-over"""

    def samples():
        for name in worker_share(sorted(os.listdir(GZ.name))):
            with subprocess.Popen(["gzip", "-dc", GZ.path(name)], stdout=subprocess.PIPE, bufsize=0) as program:
                while content := program.stdout.read(KIB64):
                    yield len(content)

    return train_model(of_workers(stream(samples, "child"), "child", batch=64), 0.006)


PACKED = Made("packed", write_tars(lambda _: os.urandom(KIB64), "bin", ".read-4ms"))


@job("storage", PACKED, torch=True, needs=("numpy",), also=("child",))
def tar_program_slow_disk():
    """workers read from `tar -xO` through a pipe, tars on a slow disk | a program started by a worker waits for the disk"""

    def samples():
        for name in worker_share(sorted(os.listdir(PACKED.name))):
            with subprocess.Popen(["tar", "-xOf", PACKED.path(name)], stdout=subprocess.PIPE) as program:
                while content := program.stdout.read(KIB64):
                    yield len(content)

    return train_model(of_workers(stream(samples, "storage"), "storage", batch=2), 0.015)


@job("start", JPEG_TARS, torch=True, needs=("PIL",), spans=True)
def spawned_workers_jpeg():
    """(spans) spawned workers, 2 epochs without `persistent_workers` | imports are CPU time and file reads of the start"""
    loader = of_workers(Pictures(), "no-cpu", multiprocessing_context="spawn")
    return train_model(loader, 0.03, epochs=2, assumed="start")


class Pictures:
    """Pictures in memory, for workers that get their data set by a pickle."""

    def __init__(self):
        self.content = jpeg(0)

    def __len__(self):
        return 48

    def __getitem__(self, index):
        own("no-cpu").sample()
        return decoded(self.content)
