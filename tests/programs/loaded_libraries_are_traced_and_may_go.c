/* dlopen and dlclose, ten times. With RTLD_DEEPBIND a library finds the C library before the tracer (unless the
 * dynamic linker's own table precedes it): its calls are not recorded, and nothing breaks. */
//= library: reads.c
//= case: bound as usual
//= run: usual {library}
//= events: open=30 pread=30 close=30
//= case: bound deeply
//= run: deep {library}
//= events: open=1
#include <dlfcn.h>
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    int deep = !strcmp(argv[1], "deep");
    if (deep) open("/etc/passwd", O_RDONLY);
    for (int i = 0; i < 10; i++) {
        void *library = dlopen(argv[2], RTLD_NOW | (deep ? RTLD_DEEPBIND : 0));
        EXPECT(library);
        int (*reads)(const char *) = dlsym(library, "reads");
        EXPECT(reads("/etc/passwd") == 1);
        EXPECT(dlclose(library) == 0);
    }
    return PASSED;
}
