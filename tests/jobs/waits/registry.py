"""Which jobs exist, the data they read, and the C sources they need."""

import dataclasses
import os
import shutil
import subprocess
import typing

JOBS = {}
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass(frozen=True)
class Files:
    """Data files below the working directory. ``slow`` is what slow_files.c reads in a name: ``read-20ms``."""

    name: str
    count: int
    size: int = 64 << 10
    slow: str = ""
    slow_every: int = 1

    def path(self, index):
        index %= self.count
        slow = f".{self.slow}" if self.slow and index % self.slow_every == self.slow_every - 1 else ""
        return os.path.join(self.name, f"{index:04}{slow}")

    def make(self):
        os.makedirs(self.name, exist_ok=True)
        for index in range(self.count):
            if not os.path.exists(self.path(index)):
                with open(self.path(index), "wb") as file:
                    file.write(os.urandom(1 << 16) * (self.size >> 16) or bytes(self.size))

    def read(self, index):
        with open(self.path(index), "rb", buffering=0) as file:
            return file.read(self.size)


@dataclasses.dataclass(frozen=True)
class Made:
    """Data that need a library to be made: ``make(path)`` makes them in a directory of their own below the working directory."""

    name: str
    create: typing.Callable

    def path(self, *parts):
        return os.path.join(self.name, *parts)

    def make(self):
        if not os.path.exists(self.name):
            draft = self.name + ".part"
            shutil.rmtree(draft, ignore_errors=True)
            os.makedirs(draft)
            self.create(draft)
            os.rename(draft, self.name)


@dataclasses.dataclass(frozen=True)
class Job:
    """``cause`` is the built-in cause; the job's clock decides. ``also`` are causes that are also right, ``never`` further claims that
    are false. ``needs`` are modules that the job imports, ``group`` is a controller for which it creates a control group, ``finding`` a
    finding that the report must have if the built-in cause is the largest, and ``says`` are patterns of sentences that it must then have. A
    job with ``mounts`` mounts a file system in a namespace of its own. With ``spans`` it runs under `python3 -m dliotrace run
    --torch`."""

    name: str
    cause: str
    data: tuple
    also: tuple
    never: tuple
    torch: bool
    needs: tuple
    spans: bool
    group: str
    finding: str
    says: tuple
    mounts: bool
    runs: int
    run: typing.Callable

    @property
    def about(self):
        """What happens, and what an analyzer may fall for."""
        return " ".join(self.run.__doc__.split())

    @property
    def has_workers(self):
        """Returns True if other processes make the batches."""
        modules = ("processes", "network", "pytorch", "ranks", "formats", "frameworks", "machine")
        return self.run.__module__ in modules and "no-workers" not in self.name


def job(cause, *data, also=(), never=(), torch=False, needs=(), spans=False, group="", finding="", says=(), mounts=False, runs=1):
    """Registers a job: a function that trains and returns its Trainer."""

    def register(run):
        name = run.__name__.replace("_", "-")
        JOBS[name] = Job(name, cause, data, tuple(also), tuple(never), torch, tuple(needs), spans, group, finding, tuple(says), mounts, runs, run)
        return run

    return register


def build(source, *options):
    """Compiles a source in C or C++ into the current directory, unless that is done already. Returns the path."""
    extension = ".so" if "-shared" in options else ""
    target = os.path.abspath(os.path.splitext(os.path.basename(source))[0] + extension)
    source = os.path.join(HERE, source)
    if not os.path.exists(target) or os.path.getmtime(target) < os.path.getmtime(source):
        compiler = "c++" if source.endswith(".cpp") else "cc"
        command = [compiler, "-O2", "-Wall", "-Werror", *options, "-o", target, source, "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
    return target


def prepare(chosen):
    """Makes the data of a job, and the slow disk, in the current directory. Returns the path of the slow disk's library."""
    for files in chosen.data:
        files.make()
    return build("slow_files.c", "-shared", "-fPIC")
