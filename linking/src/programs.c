/* Code that a program needs and a library does not.
 *
 * The start of a program: until glibc 2.34 each program ran its own constructors, with code that the linker took from the C
 * library. A program that was linked since then has no such code: the C library runs the constructors. Here the program
 * contains the code again. Newer C libraries call it, too, and then run no constructors of the program themselves. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef int main_function(int, char **, char **);
typedef void constructor(int, char **, char **);

extern constructor *__init_array_start[] __attribute__((visibility("hidden")));
extern constructor *__init_array_end[] __attribute__((visibility("hidden")));
extern void _init(void);

static void run_constructors(int count, char **arguments, char **environment) {
    _init();
    size_t constructors = (size_t)(__init_array_end - __init_array_start);
    for (size_t i = 0; i < constructors; i++) __init_array_start[i](count, arguments, environment);
}

/* The linker redirects calls of `__libc_start_main` here, and `__real_` is the C library's (--wrap). */
int __real___libc_start_main(main_function *, int, char **, constructor *, void (*)(void), void (*)(void), void *);

__attribute__((visibility("hidden"))) int __wrap___libc_start_main(main_function *main, int count, char **arguments,
                                                                   constructor *init, void (*fini)(void),
                                                                   void (*loaders_fini)(void), void *stack_end) {
    return __real___libc_start_main(main, count, arguments, init == NULL ? run_constructors : init, fini, loaders_fini,
                                    stack_end);
}

/* Added in 2.27. If a tracer precedes it, the tracer's function is called. */
__attribute__((visibility("hidden"))) int memfd_create(const char *name, unsigned flags) {
    int (*function)(const char *, unsigned);
    *(void **)&function = dlsym(RTLD_DEFAULT, "memfd_create");
    return function != NULL ? function(name, flags) : (int)syscall(SYS_memfd_create, name, flags);
}
