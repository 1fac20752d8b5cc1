/* Waits for the simulated device by calls of libraries that are loaded after the start: `waits HOW DRIVER PART ...`. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../libraries/expect.h"
#include "fake.h"

static void *opened(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    EXPECT(library);
    return library;
}

static void run(void *library, const char *name) {
    int (*function)(void) = (int (*)(void))dlsym(library, name);
    EXPECT(function && function() == 0);
}

/* Calls of the driver by functions that were looked up, as compilers and frameworks without the runtime make them. */
static void call_driver(void *driver) {
    __typeof__(&fake_launch) launch = (__typeof__(&fake_launch))dlsym(driver, "fake_launch");
    ((__typeof__(&fake_start))dlsym(driver, "fake_start"))(0);
    int (*of_stream)(void *) = (int (*)(void *))dlsym(driver, "cuStreamSynchronize");
    int (*of_event)(void *) = (int (*)(void *))dlsym(driver, "cuEventSynchronize");
    int (*of_context)(void) = (int (*)(void))dlsym(driver, "cuCtxSynchronize");
    int (*copy)(uintptr_t, const void *, size_t) = (int (*)(uintptr_t, const void *, size_t))dlsym(driver, "cuMemcpyHtoD_v2");
    char from[64] = "data", to[64];
    launch(NULL, 2000000);
    EXPECT(of_stream(NULL) == 0 && errno == EDOM);
    launch(NULL, 1000000);
    EXPECT(of_event(from) == 0);
    launch(NULL, 1000000);
    EXPECT(of_context() == 0);
    launch(NULL, 1000000);
    EXPECT(copy((uintptr_t)to, from, sizeof to) == 0 && strcmp(to, from) == 0);
    /* Fails at once, too short to be recorded. */
    EXPECT(of_stream((void *)1) == 400);
}

int main(int count, char **arguments) {
    /* Programs detect CUDA by these names. */
    EXPECT(!dlsym(RTLD_DEFAULT, "cudaStreamSynchronize") && !dlsym(RTLD_DEFAULT, "cuStreamSynchronize"));
    EXPECT(!dlsym(RTLD_DEFAULT, "hipStreamSynchronize"));
    int has_driver = strcmp(arguments[1], "driver") == 0;
    if (has_driver) call_driver(opened(arguments[2]));
    for (int i = 3; i < count; i++) {
        void *part = opened(arguments[i]);
        run(part, "run");
        if (i == 3 && !has_driver) run(part, "fail");
    }
    pid_t child = fork();
    if (child == 0) _exit(0);
    EXPECT(child > 0 && waitpid(child, NULL, 0) == child);
    return PASSED;
}
