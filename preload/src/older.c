/* Functions that were moved between libraries or added after glibc 2.17, and those that musl does not have: under their own
 * names, for this library only, so that it loads on every system since.
 *
 * None of them is a symbol of this library that the loader has to find. Before 2.30, the loader binds a symbol to a version and
 * to the library that had it on the build host, and ends the program if another library has it, even if the reference is weak.
 * So they are looked up here: in the C library, where they all are since 2.34, or in their former library. A program may not
 * have loaded that one: without libpthread there are no threads to handle, and libdl is loaded for dlsym, without which
 * nothing can be hooked. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define WEAK __attribute__((weak))

struct aiocb;
typedef unsigned pthread_key_t;

/* musl has none of these. The linker redirects calls of them to `__wrap_`, and `__real_` is the C library's (--wrap). */
WEAK int __real_on_exit(void (*)(int, void *), void *);
WEAK int __real___register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);
WEAK int __real___cxa_at_quick_exit(void (*)(void *), void *);
int __cxa_atexit(void (*)(void *), void *, void *);

/* True if the C library is glibc. */
HIDDEN int dlio_is_glibc(void) { return __real_on_exit != NULL; }

/* Libraries are recognized by the ends of their paths. */
#define LIBC "/libc.so.6"
#define LIBDL "/libdl.so.2"
#define LIBPTHREAD "/libpthread.so.0"
#define LIBRT "/librt.so.1"

struct wanted {
    const char *name;
    const char *library;
    void *found;
};

/* The loader has added the base to the addresses of a dynamic section, except if the section is read-only. */
static const void *at(ElfW(Addr) base, ElfW(Addr) address) {
    return (const void *)(address < base ? address + base : address);
}

static unsigned hash_of(const char *name) {
    unsigned hash = 5381;
    for (; *name != 0; name++) hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* A function that an object defines, from its GNU hash table, which each glibc has; or null. */
static void *defined(const struct dl_phdr_info *object, const char *name) {
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    const unsigned *table = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn) *entry = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            const void *place = at(object->dlpi_addr, entry->d_un.d_ptr);
            if (entry->d_tag == DT_SYMTAB) symbols = place;
            if (entry->d_tag == DT_STRTAB) names = place;
            if (entry->d_tag == DT_GNU_HASH) table = place;
        }
    }
    if (symbols == NULL || names == NULL || table == NULL || table[0] == 0) return NULL;
    unsigned hash = hash_of(name), first = table[1];
    const unsigned *buckets = (const unsigned *)((const ElfW(Addr) *)(const void *)(table + 4) + table[2]);
    const unsigned *chains = buckets + table[0];
    unsigned number = buckets[hash % table[0]];
    if (number < first) return NULL;
    for (;; number++) {
        unsigned own = chains[number - first];
        const ElfW(Sym) *symbol = symbols + number;
        int is_it = (own | 1) == (hash | 1) && strcmp(names + symbol->st_name, name) == 0;
        if (is_it && symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 0xf) == STT_FUNC) {
            return (void *)(object->dlpi_addr + symbol->st_value);
        }
        if (own & 1) return NULL;
    }
}

HIDDEN void *dlio_defined(const struct dl_phdr_info *object, const char *name) { return defined(object, name); }

static int ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), of_ending = strlen(ending);
    return length >= of_ending && strcmp(path + length - of_ending, ending) == 0;
}

/* True for this library, which exports some of the functions that are looked up. */
static int is_this_library(const struct dl_phdr_info *object) {
    ElfW(Addr) here = (ElfW(Addr))&is_this_library;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = object->dlpi_phdr + i;
        ElfW(Addr) start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && here >= start && here < start + part->p_memsz) return 1;
    }
    return 0;
}

static int look(struct dl_phdr_info *object, size_t size, void *data) {
    struct wanted *wanted = data;
    (void)size;
    if (is_this_library(object)) return 0;
    /* musl is one library with many names. */
    int is_it = !dlio_is_glibc() || (object->dlpi_name != NULL && ends_with(object->dlpi_name, wanted->library));
    if (!is_it) return 0;
    wanted->found = defined(object, wanted->name);
    return wanted->found != NULL;
}

static void *of_library(const char *library, const char *name) {
    struct wanted wanted = {name, library, NULL};
    dl_iterate_phdr(look, &wanted);
    return wanted.found;
}

/* In the C library, or in its former library. */
static void *old(const char *name, const char *library) {
    void *found = of_library(LIBC, name);
    return found == NULL ? of_library(library, name) : found;
}

/* libdl is loaded if necessary, with the function by which the C library itself loads libraries before 2.34. */
static void *of_libdl(const char *name) {
    void *found = old(name, LIBDL);
    if (found != NULL) return found;
    void *(*load)(const char *, int);
    *(void **)&load = of_library(LIBC, "__libc_dlopen_mode");
    if (load == NULL || load("libdl.so.2", RTLD_LAZY | (int)0x80000000) == NULL) return NULL;
    return of_library(LIBDL, name);
}

/* Two threads that look up a function at the same time find the same one. */
#define FOUND(function, search) \
    if (__atomic_load_n(&function, __ATOMIC_RELAXED) == NULL) { \
        void *place = search; \
        __atomic_store((void **)&function, &place, __ATOMIC_RELAXED); \
    }

/* The next `dlsym` after the one that this library exports: that of another preloaded library, or the C library's. RTLD_NEXT
 * depends on its caller: a tail call would be wrong, but any place in this library is correct. */
HIDDEN void *dlio_next_dlsym(void) {
    static void *function;
    if (__atomic_load_n(&function, __ATOMIC_RELAXED) == NULL) {
        void *(*look_up)(void *, const char *);
        *(void **)&look_up = of_libdl("dlsym");
        void *volatile next = look_up == NULL ? NULL : look_up(RTLD_NEXT, "dlsym");
        void *found = next == NULL ? *(void **)&look_up : next;
        __atomic_store_n(&function, found, __ATOMIC_RELAXED);
    }
    return function;
}

HIDDEN void *dlvsym(void *library, const char *name, const char *version) {
    static void *(*function)(void *, const char *, const char *);
    FOUND(function, of_libdl("dlvsym"))
    void *volatile found = function == NULL ? NULL : function(library, name, version);
    return found;
}

HIDDEN void *dlopen(const char *name, int mode) {
    static void *(*function)(const char *, int);
    FOUND(function, of_libdl("dlopen"))
    void *volatile opened = function == NULL ? NULL : function(name, mode);
    return opened;
}

HIDDEN int dlclose(void *library) {
    static int (*function)(void *);
    FOUND(function, of_libdl("dlclose"))
    return function == NULL ? 0 : function(library);
}

HIDDEN char *dlerror(void) {
    static char *(*function)(void);
    FOUND(function, of_libdl("dlerror"))
    return function == NULL ? NULL : function();
}

HIDDEN int dladdr(const void *address, Dl_info *found) {
    static int (*function)(const void *, Dl_info *);
    FOUND(function, of_libdl("dladdr"))
    return function == NULL ? 0 : function(address, found);
}

HIDDEN int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    static int (*function)(pthread_key_t *, void (*)(void *));
    FOUND(function, old("pthread_key_create", LIBPTHREAD))
    return function == NULL ? EAGAIN : function(key, destructor);
}

HIDDEN int pthread_key_delete(pthread_key_t key) {
    static int (*function)(pthread_key_t);
    FOUND(function, old("pthread_key_delete", LIBPTHREAD))
    return function == NULL ? EINVAL : function(key);
}

HIDDEN int pthread_setspecific(pthread_key_t key, const void *value) {
    static int (*function)(pthread_key_t, const void *);
    FOUND(function, old("pthread_setspecific", LIBPTHREAD))
    return function == NULL ? EINVAL : function(key, value);
}

/* Called only after another function of this kind was called. */
HIDDEN int aio_error(const struct aiocb *request) {
    static int (*function)(const struct aiocb *);
    FOUND(function, old("aio_error", LIBRT))
    return function == NULL ? ENOSYS : function(request);
}

HIDDEN pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

/* musl does not pass the exit status of a process to its handlers. */
#define UNKNOWN_STATUS INT_MIN

static void (*at_exit)(int, void *);

static void exits(void *argument) { at_exit(UNKNOWN_STATUS, argument); }

HIDDEN int __wrap_on_exit(void (*function)(int, void *), void *argument) {
    if (__real_on_exit != NULL) return __real_on_exit(function, argument);
    at_exit = function;
    return __cxa_atexit(exits, argument, NULL);
}

HIDDEN int __wrap___register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *library) {
    if (__real___register_atfork != NULL) return __real___register_atfork(before, parent, child, library);
    int (*function)(void (*)(void), void (*)(void), void (*)(void));
    *(void **)&function = of_library(LIBC, "pthread_atfork");
    return function == NULL ? ENOSYS : function(before, parent, child);
}

HIDDEN int __wrap___cxa_at_quick_exit(void (*function)(void *), void *library) {
    return __real___cxa_at_quick_exit == NULL ? ENOSYS : __real___cxa_at_quick_exit(function, library);
}
