// The thread calls functions that were never called before, so the tracer has to look up the real ones in the loader.
//= library: joins_a_thread.c
//= run: {library}
//= compile: -pthread
//= events: fopen=1 fputs=1 fclose=1 usleep=1 pthread_join=1
#include <dlfcn.h>
#include "expect.h"

int main(int argc, char **argv) {
    EXPECT(argc == 2 && dlopen(argv[1], RTLD_NOW) != NULL);
    return PASSED;
}
