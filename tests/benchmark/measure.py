"""Measures `dlio bench` beside plain Python: start-up, generation, training reads.

usage: measure.py DLIO FOLDER [--quick]

DLIO is the program, FOLDER a place for about a gigabyte of data (a tmpfs shows the cost of the software, a disk that of
the disk). Python needs numpy and h5py. Every figure of ours stands beside the stand-in's of the same moment: the same
library calls that DLIO makes, without DLIO. Prints a line a figure: what, ours, theirs, ratio, target.
"""

import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import h5py
import numpy as np

DLIO, FOLDER, QUICK = sys.argv[1], Path(sys.argv[2]) / "dlio-measure", "--quick" in sys.argv
FILES = 64 if QUICK else 256
SIDE = 1448
SAMPLE = SIDE * SIDE


def run(*typed):
    """CPU seconds, wall seconds and peak memory (kB) of one run, in a process of its own so that the peak is its own."""
    code = (
        "import json,resource,subprocess,sys,time\n"
        "t=time.perf_counter();p=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL);t=time.perf_counter()-t\n"
        "u=resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([u.ru_utime+u.ru_stime,t,u.ru_maxrss,p.returncode]))"
    )
    said = subprocess.run([sys.executable, "-c", code, DLIO, *typed], capture_output=True, text=True, check=True)
    cpu, wall, memory, status = json.loads(said.stdout)
    assert status == 0, (typed, said.stderr)
    return cpu, wall, memory


def workload(form, files, length, *more):
    tf = form == "tfrecord"
    return [
        "bench", "-q", "workload=unet3d", "++workload.workflow.checkpoint=false",
        f"++workload.dataset.data_folder={FOLDER}/{form}", f"++workload.dataset.format={form}",
        f"++workload.dataset.num_files_train={files}", f"++workload.dataset.record_length_bytes={length}",
        "++workload.dataset.record_length_bytes_stdev=0", "++workload.dataset.record_length_bytes_resize=0",
        f"++workload.framework={'tensorflow' if tf else 'pytorch'}",
        f"++workload.reader.data_loader={'tensorflow' if tf else 'pytorch'}",
        f"++hydra.run.dir={FOLDER}/run", *more,
    ]  # fmt: skip


def line(what, ours, theirs, unit, target):
    ratio = f"{ours / theirs:8.2f}x" if theirs else "        -"
    theirs = f"{theirs:10.3f}" if theirs else "         -"
    print(f"{what:<36} {ours:10.3f} {theirs} {unit:<12} {ratio}   target {target}", flush=True)


def noise(side):
    return (np.random.default_rng().random((side, side, 1), dtype=np.float32) * 255).astype(np.uint8)


def write_like_dlio(form, path, side):
    array = noise(side)
    if form == "npz":
        np.savez(path, x=array, y=[0])
    elif form == "npy":
        np.save(path, array)
    elif form == "hdf5":
        with h5py.File(path, "w", libver="latest") as file:
            file.create_dataset("records_0", data=array.reshape(1, side, side))
            file.create_dataset("labels", data=[0])
    elif form == "indexed_binary":
        Path(path).write_bytes(struct.pack(f"{array.size}B", *array.ravel()))
    elif form == "csv":
        Path(path).write_text(",".join(map(str, array.ravel())) + "\n")
    elif form == "png":
        raw = np.concatenate([np.zeros((side, 1), np.uint8), array[..., 0]], axis=1)
        Path(path).write_bytes(zlib.compress(raw.tobytes(), 6))


def stand_in(form, side):
    """MB of samples a CPU second, by the library calls that DLIO makes."""
    path = str(FOLDER / f"stand-in.{form}")
    count = 2 if form in ("indexed_binary", "csv", "png") else 12
    write_like_dlio(form, path, side)
    begun = time.process_time()
    for _ in range(count):
        write_like_dlio(form, path, side)
    return count * side * side / 1e9 / (time.process_time() - begun)


def start_up():
    typed = workload(
        "synthetic", 8, 4096, "++workload.reader.data_loader=synthetic", "++workload.train.epochs=1",
        "++workload.train.computation_time=0",
    )  # fmt: skip
    runs = [run(*typed) for _ in range(10)]
    line("start-up of a rank, wall", sorted(wall for _, wall, _ in runs)[5] * 1e3, 0, "ms", "<= 20")
    line("start-up of a rank, memory", max(memory for *_, memory in runs) / 1024, 0, "MiB", "<= 20")


def generation():
    for form in ["npz", "npy", "hdf5", "tfrecord", "indexed_binary", "mmap_indexed_binary", "csv", "png", "jpeg"]:
        files, length = (FILES, SAMPLE) if form not in ("csv", "jpeg") else (FILES // 4, 262_144)
        side = int(length**0.5)
        rates = []
        for _ in range(3):
            shutil.rmtree(FOLDER / form, ignore_errors=True)
            cpu, _, _ = run(*workload(form, files, length, "++workload.workflow.generate_data=true", "++workload.workflow.train=false"))
            rates.append(files * side * side / 1e9 / cpu)
        known = form in ("npz", "npy", "hdf5", "indexed_binary", "csv", "png")
        theirs = stand_in(form, side if form != "csv" else 128) if known else 0
        target = {"csv": ">= 20x", "png": ">= 20x", "jpeg": "-"}.get(form, ">= 1.5")
        line(f"generate {form}", sorted(rates)[1], theirs, "GB/CPU-s", target)
        if form not in ("npz", "npy", "hdf5"):
            shutil.rmtree(FOLDER / form, ignore_errors=True)


READ_LOOP = """
import os,sys,time
names=sys.argv[3:];workers=int(sys.argv[1])
for epoch in range(int(sys.argv[2])):
    begun=time.perf_counter();children=[]
    for worker in range(workers):
        child=os.fork()
        if child==0:
            buffer=bytearray(max(map(os.path.getsize,names)))
            for name in names[worker::workers]:
                with open(name,'rb',buffering=0) as file: file.readinto(buffer)
            os._exit(0)
        children.append(child)
    for child in children: os.waitpid(child,0)
    print(time.perf_counter()-begun)
"""


def read_loop(form, workers, epochs):
    names = sorted(map(str, (FOLDER / form / "train").iterdir()))
    said = subprocess.run([sys.executable, "-c", READ_LOOP, str(workers), str(epochs), *names], capture_output=True, text=True, check=True)
    return list(map(float, said.stdout.split()))


def training_reads():
    epochs, megabytes = 5, FILES * SAMPLE / 1e6
    for form in ["npz", "npy", "hdf5"]:
        for workers in [1, 2]:
            ours, theirs, first = [], [], []
            for _ in range(3):
                theirs += read_loop(form, workers, epochs)
                run(*workload(
                    form, FILES, SAMPLE, f"++workload.reader.read_threads={workers}", "++workload.reader.batch_size=4",
                    f"++workload.train.epochs={epochs}", "++workload.train.computation_time=0",
                ))  # fmt: skip
                steps = json.loads((FOLDER / "run/0_output.json").read_text())
                waits = [sum(steps[str(epoch)]["load"]["block1"]) for epoch in range(1, epochs + 1)]
                ours += waits[1:]
                first.append(waits[0])
            median = lambda numbers: sorted(numbers)[len(numbers) // 2]
            line(f"read {form}, {workers} worker(s)", megabytes / median(ours), megabytes / median(theirs), "MB/s", ">= 0.9x")
            line(f"read {form}, epoch 1 against later", megabytes / median(first), megabytes / median(ours), "MB/s", ">= 0.8x")


shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir(parents=True)
try:
    print(f"{'':<36} {'ours':>10} {'plain':>10}")
    start_up()
    generation()
    training_reads()
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
