/* A slow disk. The name of a file says which calls on it are slow: each read of `7.read-20ms` takes 20 ms more; `open`, `stat`
   and `sync` work alike, and `300us` is possible, too. The library is last in LD_PRELOAD, so that a tracer in front of it records
   the slow calls.

   DLIO_SLOW_FACTOR divides all of these times. DLIO_SLOW_SLOPE=A makes calls slow each other down: of N that are in progress,
   each is slower by the factor 1 + A (N - 1). All processes count them in the file DLIO_SLOW_COUNTER. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The times of a slice, in microseconds: calls that slow each other down look this often how many there are. */
#define SLICE 500

static void rest(double us) {
    static __thread int is_exact;
    // A sleep takes 50 us longer by default, which half of a short sleep would, too.
    if (!is_exact)
        is_exact = syscall(SYS_prctl, PR_SET_TIMERSLACK, 1000L, 0L, 0L, 0L) == 0;
    struct timespec left = {(long)us / 1000000, (long)us % 1000000 * 1000};
    while (syscall(SYS_nanosleep, &left, &left) != 0) {
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* The calls in progress of all processes, or NULL. */
static int *counter(void) {
    static int *shared;
    const char *path = getenv("DLIO_SLOW_COUNTER");
    if (shared || !path)
        return shared;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    if (fd < 0)
        return NULL;
    long at = syscall(SYS_mmap, 0L, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    syscall(SYS_close, fd);
    return shared = at == -1 ? NULL : (int *)at;
}

/* Sleeps for a call of this length, which others in progress slow down. */
static void rest_among_others(double us, double slope) {
    int *calls = counter();
    if (!calls) {
        fprintf(stderr, "slow_files: cannot map DLIO_SLOW_COUNTER\n");
        abort();
    }
    __atomic_add_fetch(calls, 1, __ATOMIC_SEQ_CST);
    for (double last = now(); us > 0;) {
        double slower = 1 + slope * (__atomic_load_n(calls, __ATOMIC_SEQ_CST) - 1);
        rest(us * slower < SLICE ? us * slower : SLICE);
        double time = now();
        us -= (time - last) / slower;
        last = time;
    }
    __atomic_sub_fetch(calls, 1, __ATOMIC_SEQ_CST);
}

/* Sleeps as long as the name of the file says for this kind of call. */
static void delay(const char *path, const char *kind) {
    char mark[16], *unit;
    snprintf(mark, sizeof mark, ".%s-", kind);
    const char *found = path ? strstr(path, mark) : NULL;
    if (!found)
        return;
    double us = strtol(found + strlen(mark), &unit, 10);
    if (*unit != 'u')
        us *= 1000;
    const char *factor = getenv("DLIO_SLOW_FACTOR"), *slope = getenv("DLIO_SLOW_SLOPE");
    if (factor)
        us /= atof(factor);
    if (slope)
        rest_among_others(us, atof(slope));
    else if (us > 0)
        rest(us);
}

static void delay_open_file(int fd, const char *kind) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlink, link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    delay(path, kind);
}

#define NEXT(result, name, ...)                                                                                              \
    static result (*next)(__VA_ARGS__);                                                                                      \
    if (!next)                                                                                                               \
        next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

ssize_t read(int fd, void *into, size_t count) {
    NEXT(ssize_t, "read", int, void *, size_t)
    delay_open_file(fd, "read");
    return next(fd, into, count);
}

ssize_t pread64(int fd, void *into, size_t count, off_t offset) {
    NEXT(ssize_t, "pread64", int, void *, size_t, off_t)
    delay_open_file(fd, "read");
    return next(fd, into, count, offset);
}

ssize_t pread(int fd, void *into, size_t count, off_t offset) {
    NEXT(ssize_t, "pread", int, void *, size_t, off_t)
    delay_open_file(fd, "read");
    return next(fd, into, count, offset);
}

int fsync(int fd) {
    NEXT(int, "fsync", int)
    delay_open_file(fd, "sync");
    return next(fd);
}

int stat64(const char *path, struct stat64 *into) {
    NEXT(int, "stat64", const char *, struct stat64 *)
    delay(path, "stat");
    return next(path, into);
}

int stat(const char *path, struct stat *into) {
    NEXT(int, "stat", const char *, struct stat *)
    delay(path, "stat");
    return next(path, into);
}

int open64(const char *path, int flags, ...) {
    NEXT(int, "open64", const char *, int, ...)
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    delay(path, "open");
    return next(path, flags, mode);
}
