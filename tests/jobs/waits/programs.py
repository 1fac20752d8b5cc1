"""Jobs in C (ring.c) and C++ (futures.cpp): reader threads and a training thread. There is no Python and no other process."""

import os

from processes import FAST, LARGE, SLOW
from registry import build, job


def run(how, what, steps, step_ms, files, source="ring.c"):
    paths = [files.path(index) for index in range(files.count)]
    program = build(source, *(["-std=c++17"] if source.endswith(".cpp") else []))
    os.execv(program, [program, how, what, str(steps), str(step_ms), *paths])


@job("storage", SLOW)
def c_condition():
    """`pthread_cond_wait`, slow files | no fork, no pipe, no Python"""
    run("condition", "read", 80, 8, SLOW)


@job("storage", SLOW)
def c_shared_condition():
    """a process reads, `pthread_cond_wait` in memory that both map, slow files | no pipe, no semaphore; only the condition is shared"""
    run("process", "read", 80, 8, SLOW)


@job("storage", SLOW)
def c_semaphore():
    """`sem_wait`, slow files | the waiter's semaphore is not a lock"""
    run("semaphore", "read", 80, 8, SLOW)


@job("storage", SLOW)
def c_inline_futex():
    """a queue that spins and then calls futex by an instruction of its own, slow files | the wait is not visible: unknown"""
    run("inline", "read", 80, 8, SLOW)


@job("storage", SLOW)
def c_syscall_futex():
    """a futex by the function `syscall`, slow files | visible only with a hook of `syscall`"""
    run("syscall", "read", 80, 8, SLOW)


@job("storage", SLOW)
def c_eventfd():
    """eventfd, slow files, with a second loader that is far ahead | all eventfds share one inode"""
    run("eventfd", "read", 80, 8, SLOW)


@job("cpu", FAST)
def c_decode():
    """`pthread_cond_wait`, 25 ms of decoding per batch | CPU time of a thread"""
    run("condition", "decode", 60, 10, FAST)


@job("storage", FAST)
def c_uring():
    """`pthread_cond_wait`, reads through an io_uring ring, 20 ms each | the reader waits in io_uring_enter"""
    run("condition", "uring", 80, 8, FAST)


@job("cpu", FAST)
def c_uring_decode():
    """`pthread_cond_wait`, 4 reads in flight in an io_uring ring, 25 ms of decoding per batch | requests take no time of a thread"""
    run("condition", "uring-decode", 60, 10, FAST)


@job("page-faults", LARGE)
def c_cold_mapping():
    """`pthread_cond_wait`, random pages of a mapped file that is not cached | page faults of a thread"""
    run("condition", "map", 60, 2, LARGE)


@job("none", FAST)
def c_healthy():
    """`pthread_cond_wait`, fast files | healthy"""
    run("condition", "read", 60, 30, FAST)


@job("storage", SLOW)
def cpp_async_slow_files():
    """`std::async` in C++, one batch ahead, slow files | each batch has a thread of its own; a future's futex is in libstdc++"""
    run("async", "read", 60, 12, SLOW, "futures.cpp")


@job("cpu", FAST)
def cpp_pool_decode():
    """2 `std::thread` in C++, `std::condition_variable` for tasks, `std::promise` for batches | CPU time of threads"""
    run("pool", "decode", 100, 6, FAST, "futures.cpp")
