/* The driver of a GPU, on a host without one: opening it opens /dev/null. The library is the last one in LD_PRELOAD, so that a
   tracer before it records the path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

int open64(const char *path, int flags, ...) {
    static int (*next)(const char *, int, ...);
    if (!next)
        next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return next(strcmp(path, "/dev/nvidia-uvm") == 0 ? "/dev/null" : path, flags, mode);
}
