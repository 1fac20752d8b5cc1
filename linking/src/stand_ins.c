/* Functions that current programs require of the C library and that glibc 2.17 lacks, implemented with those it has. Each is
 * hidden: no library of the program finds it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The version of `struct stat` on x86-64. */
#define FORM 1

int __xstat64(int form, const char *path, struct stat64 *into);
int __lxstat64(int form, const char *path, struct stat64 *into);
int __fxstat64(int form, int fd, struct stat64 *into);
int __fxstatat64(int form, int folder, const char *path, struct stat64 *into, int flags);

HIDDEN int stat64(const char *path, struct stat64 *into) { return __xstat64(FORM, path, into); }
HIDDEN int lstat64(const char *path, struct stat64 *into) { return __lxstat64(FORM, path, into); }
HIDDEN int fstat64(int fd, struct stat64 *into) { return __fxstat64(FORM, fd, into); }
HIDDEN int fstatat64(int folder, const char *path, struct stat64 *into, int flags) {
    return __fxstatat64(FORM, folder, path, into, flags);
}

/* Both structures are identical here. */
HIDDEN int stat(const char *path, struct stat *into) { return __xstat64(FORM, path, (void *)into); }
HIDDEN int lstat(const char *path, struct stat *into) { return __lxstat64(FORM, path, (void *)into); }
HIDDEN int fstat(int fd, struct stat *into) { return __fxstat64(FORM, fd, (void *)into); }
HIDDEN int fstatat(int folder, const char *path, struct stat *into, int flags) {
    return __fxstatat64(FORM, folder, path, (void *)into, flags);
}

HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }
