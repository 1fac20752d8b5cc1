/* A library that is loaded privately contains functions of liburing, like a library that was linked with it
 * statically: its calls reach its own functions and are not recorded. */
//= library: rings.c
//= run: {library}
//= events: open=1 io_uring_setup=0
//= passes: off
#include <dlfcn.h>
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    open("/etc/passwd", O_RDONLY);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    EXPECT(library);
    int (*rings)(void) = dlsym(library, "rings");
    for (int twice = 0; twice < 2; twice++) EXPECT(rings() == 101);
    int (*params)(unsigned, void *, void *) = dlsym(library, "io_uring_queue_init_params");
    EXPECT(params(1, (void *)2, (void *)3) == 100 && dlsym(library, "io_uring_queue_init_mem"));
    EXPECT(dlclose(library) == 0);
    return PASSED;
}
