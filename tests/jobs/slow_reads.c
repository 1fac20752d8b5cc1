/* A slow disk: reads of files named *.sample take DLIO_SLOW_READS_US microseconds longer each.
   It is the last library in LD_PRELOAD, so that a tracer before it sees slow reads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void seek_disk(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path);
    const char *wait = getenv("DLIO_SLOW_READS_US");
    if (!wait || length < 7 || memcmp(path + length - 7, ".sample", 7) != 0)
        return;
    long us = atol(wait);
    struct timespec rest = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

ssize_t read(int fd, void *into, size_t count) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    seek_disk(fd);
    return next(fd, into, count);
}
