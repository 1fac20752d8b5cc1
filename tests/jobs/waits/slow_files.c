/* A slow disk. The name of a file says which calls on it are slow: each read of `7.read-20ms` takes 20 ms more; `open`, `stat`
   and `sync` work alike. The library is last in LD_PRELOAD, so that a tracer in front of it records the slow calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps as long as the name of the file says for this kind of call. */
static void delay(const char *path, const char *kind) {
    char mark[16];
    snprintf(mark, sizeof mark, ".%s-", kind);
    const char *found = path ? strstr(path, mark) : NULL;
    if (!found)
        return;
    long ms = atol(found + strlen(mark));
    struct timespec rest = {ms / 1000, ms % 1000 * 1000000};
    while (syscall(SYS_nanosleep, &rest, &rest) != 0) {
    }
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
    return pread64(fd, into, count, offset);
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
