/* A store with a latency and a bandwidth, shared by all processes that read below a directory:

       cc -shared -fPIC -O2 -o throttled_store.so throttled_store.c -ldl
       LD_PRELOAD=./throttled_store.so DLIO_STORE=/data DLIO_STORE_US=500 DLIO_STORE_MB_S=400 dlio bench ...

   A read waits for its latency, and for its turn on a connection that all processes share: a file contains their turns. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic long long *turns(void) {
    static _Atomic long long *shared;
    if (!shared) {
        int file = open("/dev/shm/dlio-throttled-store", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (file < 0 || ftruncate(file, sizeof *shared) != 0)
            abort();
        shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        close(file);
    }
    return shared;
}

static int is_stored(int fd) {
    char link[64], path[4096];
    const char *folder = getenv("DLIO_STORE");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = folder ? readlink(link, path, sizeof path - 1) : -1;
    return length > 0 && strncmp(path, folder, strlen(folder)) == 0;
}

static ssize_t delayed(int fd, ssize_t moved) {
    if (moved <= 0 || !is_stored(fd))
        return moved;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long begun = now.tv_sec * 1000000000LL + now.tv_nsec;
    long long wire = moved * 1000LL / atol(getenv("DLIO_STORE_MB_S"));
    long long last = atomic_load(turns()), end;
    do
        end = (last > begun ? last : begun) + wire;
    while (!atomic_compare_exchange_weak(turns(), &last, end));
    end += atol(getenv("DLIO_STORE_US")) * 1000LL;
    struct timespec until = {end / 1000000000, end % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
    return moved;
}

ssize_t read(int fd, void *into, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "read");
    return delayed(fd, next(fd, into, count));
}

ssize_t pread(int fd, void *into, size_t count, off_t at) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "pread");
    return delayed(fd, next(fd, into, count, at));
}

ssize_t pread64(int fd, void *into, size_t count, off64_t at) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (!next)
        next = dlsym(RTLD_NEXT, "pread64");
    return delayed(fd, next(fd, into, count, at));
}
