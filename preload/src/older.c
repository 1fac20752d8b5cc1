/* Functions that moved between libraries, or came, after glibc 2.17: under their own names, for this library alone, so that
 * it loads on every system since. Where glibc keeps them in libraries of their own a program may not have loaded these:
 * then there are no threads to be told of, and libdl is loaded for dlsym, without which nothing can be hooked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#endif

/* The function as it was called from the beginning, or null. */
#define OLD(result, name, ...) \
    extern result old_##name(__VA_ARGS__) __attribute__((weak)); \
    __asm__(".symver old_" #name ", " #name "@" OLDEST)

struct aiocb;
typedef unsigned pthread_key_t;

OLD(void *, dlsym, void *, const char *);
OLD(void *, dlvsym, void *, const char *, const char *);
OLD(void *, dlopen, const char *, int);
OLD(int, dlclose, void *);
OLD(int, dladdr, const void *, Dl_info *);
OLD(int, pthread_key_create, pthread_key_t *, void (*)(void *));
OLD(int, pthread_key_delete, pthread_key_t);
OLD(int, pthread_setspecific, pthread_key_t, const void *);
OLD(int, aio_error, const struct aiocb *);

/* What the C library itself loads libraries with, before 2.34. */
extern void *__libc_dlopen_mode(const char *, int) __attribute__((weak));
extern void *__libc_dlsym(void *, const char *) __attribute__((weak));
#define INTERNAL_MODE (RTLD_LAZY | (int)0x80000000)

static void *of_libdl(const char *name) {
    static void *libdl;
    if (__libc_dlopen_mode == NULL || __libc_dlsym == NULL) return NULL;
    if (libdl == NULL) libdl = __libc_dlopen_mode("libdl.so.2", INTERNAL_MODE);
    return libdl == NULL ? NULL : __libc_dlsym(libdl, name);
}

/* RTLD_NEXT counts from where it is called: tail calls would not do, but any place in this library is as good. */
HIDDEN void *dlsym(void *library, const char *name) {
    static void *(*function)(void *, const char *);
    if (function == NULL) function = old_dlsym;
    if (function == NULL) *(void **)&function = of_libdl("dlsym");
    void *volatile found = function == NULL ? NULL : function(library, name);
    return found;
}

HIDDEN void *dlvsym(void *library, const char *name, const char *version) {
    void *(*function)(void *, const char *, const char *) = old_dlvsym;
    if (function == NULL) *(void **)&function = of_libdl("dlvsym");
    void *volatile found = function == NULL ? NULL : function(library, name, version);
    return found;
}

HIDDEN void *dlopen(const char *name, int mode) {
    void *(*function)(const char *, int) = old_dlopen;
    if (function == NULL) *(void **)&function = of_libdl("dlopen");
    void *volatile opened = function == NULL ? NULL : function(name, mode);
    return opened;
}

HIDDEN int dlclose(void *library) {
    int (*function)(void *) = old_dlclose;
    if (function == NULL) *(void **)&function = of_libdl("dlclose");
    return function == NULL ? 0 : function(library);
}

HIDDEN int dladdr(const void *address, Dl_info *found) {
    int (*function)(const void *, Dl_info *) = old_dladdr;
    if (function == NULL) *(void **)&function = of_libdl("dladdr");
    return function == NULL ? 0 : function(address, found);
}

HIDDEN int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    return old_pthread_key_create == NULL ? EAGAIN : old_pthread_key_create(key, destructor);
}

HIDDEN int pthread_key_delete(pthread_key_t key) {
    return old_pthread_key_delete == NULL ? EINVAL : old_pthread_key_delete(key);
}

HIDDEN int pthread_setspecific(pthread_key_t key, const void *value) {
    return old_pthread_setspecific == NULL ? EINVAL : old_pthread_setspecific(key, value);
}

/* Asked by those alone who have called one of its kin. */
HIDDEN int aio_error(const struct aiocb *request) {
    int (*function)(const struct aiocb *) = old_aio_error;
    if (function == NULL) *(void **)&function = dlsym(RTLD_DEFAULT, "aio_error");
    return function == NULL ? ENOSYS : function(request);
}

HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }
