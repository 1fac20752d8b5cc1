"""Reads the kernel's data about this process and host independently of dlio, for tests/tests/machine.rs."""

import json
import os
import pathlib
import resource
import sys
import threading
import time


def text(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def machine():
    """Returns the counters that only grow, under dlio's names."""
    found = {}
    cpu = [int(word) for word in text("/proc/stat").split("\n")[0].split()[1:]]
    found["cpu_busy_ns"] = (cpu[0] + cpu[1] + cpu[2] + cpu[5] + cpu[6]) * 10_000_000
    found["cpu_steal_ns"] = cpu[7] * 10_000_000
    for line in text("/proc/vmstat").split("\n"):
        name, _, value = line.partition(" ")
        if name == "pgmajfault":
            found["major_faults"] = int(value)
        if name == "workingset_refault_file":
            found["refaults_file"] = int(value)
    for line in text("/proc/diskstats").split("\n"):
        words = line.split()
        if words:
            numbers = [int(word) for word in words[3:14]]
            found["device_reads " + words[2]] = numbers[0]
            found["device_write_bytes " + words[2]] = numbers[6] * 512
            found["device_busy_ns " + words[2]] = numbers[9] * 1_000_000
    for line in text("/proc/net/dev").split("\n")[2:]:
        name, _, rest = line.partition(":")
        if rest:
            found["network_received_bytes " + name.strip()] = int(rest.split()[0])
    for kind in ("cpu", "io", "memory"):
        for line in text("/proc/pressure/" + kind).split("\n"):
            if line.startswith("some"):
                found[kind + "_some_ns"] = int(line.rpartition("total=")[2]) * 1000
    return found


def own():
    """Returns the limits and the usage of this process."""
    stat = os.statvfs("/dev/shm")
    io = dict(line.split(": ") for line in text("/proc/self/io").strip().split("\n")) if text("/proc/self/io") else {}
    soft = lambda which: resource.getrlimit(which)[0]
    return {
        "cpus_allowed": len(os.sched_getaffinity(0)),
        "cpus": sorted(os.sched_getaffinity(0)),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "max_open_files": soft(resource.RLIMIT_NOFILE),
        "max_processes": soft(resource.RLIMIT_NPROC),
        "max_locked_memory": soft(resource.RLIMIT_MEMLOCK),
        "shm_size": stat.f_blocks * stat.f_frsize,
        "threads": len(os.listdir("/proc/self/task")),
        "read_bytes": int(io.get("read_bytes", -1)),
        "write_bytes": int(io.get("write_bytes", -1)),
        "cpu_ns": time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID),
    }


def wait_for_sample(folder):
    """Waits for the first sample, which `dlio trace` takes a moment after the command has started."""
    while not any("\nat\t" in path.read_text() for path in pathlib.Path(folder).glob("*.machine")):
        time.sleep(0.001)


def main():
    what, folder = sys.argv[1], sys.argv[2]
    if what == "sampled":
        wait_for_sample(os.environ["DLIO_TRACE_DIR"])
    begin = machine()
    # An event: without any event there is no trace.
    with open(os.path.join(folder, "data"), "wb") as file:
        file.write(b"x" * 1_000_000)
    if what == "pin":
        os.sched_setaffinity(0, sys.argv[3:] and {int(sys.argv[3])})
        os.kill(os.getpid(), 9)
    if what in ("limit", "limit-kill"):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    if what == "limit-kill":
        # The limits are read again with a block of events, if the process is older than one second.
        begun = time.monotonic()
        with open(os.path.join(folder, "data"), "rb") as file:
            while time.monotonic() - begun < 2:
                os.pread(file.fileno(), 1, 0)
        os.kill(os.getpid(), 9)
    if what == "threads":
        first, second = (int(cpu) for cpu in sys.argv[3:5])
        ready, done = threading.Event(), threading.Event()

        def other():
            os.sched_setaffinity(0, {second})
            ready.set()
            done.wait()

        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        ready.wait()
        os.sched_setaffinity(0, {first})
    before = time.monotonic()
    while time.monotonic() - before < 0.03:
        pass
    print(json.dumps({"own": own(), "begin": begin, "end": machine()}), flush=True)


main()
