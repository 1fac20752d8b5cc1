"""Turns a program into a benchmark with the same I/O, and uses the benchmark. ``round_trip.py DIR``.

Traces a small, unmodified training run, derives a workload from the trace, runs the workload under the same tracer and compares
both traces. It then answers a question that the program itself cannot: how many readers would an accelerator need that is
ten times as fast?
``round_trip.py --train DATA`` is the training: two processes read samples of different sizes, a third one trains.
"""

import multiprocessing
import os
import random
import subprocess
import sys
import time

FILES, BATCH, EPOCHS, READERS = 96, 4, 3, 2
BIN = os.environ.get("DLIO_BIN_DIR")


def program(name):
    return os.path.join(BIN, name) if BIN else name


def shown(*command):
    """Prints a command as typed, and runs it."""
    print("\n$ " + " ".join([os.path.basename(command[0]), *command[1:]]), flush=True)
    subprocess.run(command, check=True)


def path(data, number):
    return os.path.join(data, f"sample{number:03}.bin")


def make(data):
    os.makedirs(data, exist_ok=True)
    sizes = random.Random(1)
    for number in range(FILES):
        with open(path(data, number), "wb") as file:
            file.write(bytes(int(sizes.gauss(400_000, 40_000))))


def read(data, tasks, batches):
    for batch in iter(tasks.get, None):
        total = 0
        for number in batch:
            with open(path(data, number), "rb") as file:
                while content := file.read(64 << 10):
                    total += len(content)
        batches.put(total)


def train(data):
    tasks, batches = multiprocessing.Queue(), multiprocessing.Queue()
    readers = [multiprocessing.Process(target=read, args=(data, tasks, batches)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for epoch in range(EPOCHS):
        order = random.Random(epoch).sample(range(FILES), FILES)
        for start in range(0, FILES, BATCH):
            tasks.put(order[start : start + BATCH])
        for _ in range(FILES // BATCH):
            batches.get()
            time.sleep(0.02)  # an accelerator computes
    for _ in readers:
        tasks.put(None)
    for reader in readers:
        reader.join()


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: round_trip.py DIR")
    if sys.argv[1] == "--train":
        return train(sys.argv[2])
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    make("data")
    shown(program("dlio"), "trace", "-o", "trace", "--", sys.executable, os.path.abspath(__file__), "--train", "data")
    shown(program("dlio-analyze"), "trace", "--workload", "job.yaml")
    print()
    with open("job.yaml", encoding="utf-8") as file:
        print(file.read(), end="", flush=True)
    shown(program("dlio"), "bench", "--quiet", "workload=job.yaml", "++workload.workflow.generate_data=true", "++workload.workflow.train=false")
    shown(program("dlio"), "bench", "--quiet", "workload=job.yaml", "--trace=again")
    shown(program("dlio-analyze"), "trace", "--compare", "again", "--similarity")
    faster = "++workload.train.computation_time=0.002"
    shown(program("dlio"), "bench", "workload=job.yaml", faster, "--sweep", "reader.read_threads=1,2,4", "--repeat", "2")


if __name__ == "__main__":
    main()
