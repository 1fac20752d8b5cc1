/* A program that uses a GPU: it starts CUDA's tool, and its device works as the first argument says. Its profiler is linked to
 * version 1 of CUPTI, with -DTWO to version 2. */
#include "../../tracer/include/dliotrace.h"
#include "cupti.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(yes) do { if (!(yes)) return printf("line %d: %s\n", __LINE__, #yes), 1; } while (0)

#ifdef TWO
int cuptiSubscribe_v2(void **handle, void *callback, void *data, struct fake_parameters *parameters);
int cuptiActivityRegisterCallbacks_v2(void *handle, void *request, void *complete);
int cuptiActivityEnable_v2(void *handle, uint32_t kind, void *configuration);
#else
int cuptiSubscribe(void **handle, void *callback, void *data);
int cuptiActivityRegisterCallbacks(void *request, void *complete);
int cuptiActivityEnable(uint32_t kind);
#endif
int cuptiActivityFlushAll(uint32_t flag);

enum { MS = 1000000 };

/* As cuInit does. */
static void start_cuda(void) {
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*initialize)(void) = tool ? dlsym(tool, "InitializeInjection") : NULL;
    if (initialize) initialize();
}

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

/* Work of 20 ms within the span `nanosleep` of the host. */
static void work(void) {
    char name[] = "copied_kernel", *endless = malloc(1 << 20);
    fake_other();
    uint64_t start = fake_now();
    pause_ms(40);
    fake_kernel(strdup(name), start + 10 * MS, start + 30 * MS, 1, 7);
    memset(endless, 'k', (1 << 20) - 1), endless[(1 << 20) - 1] = 0;
    fake_kernel(endless, start + 1, start + 2, 0, 0);
    fake_kernel(NULL, start + 1, start + 2, 0, 0);
    fake_graph(start + 5 * MS, start + 35 * MS);
    fake_copy(1, 1, 3, 4096, start + 1 * MS, start + 3 * MS);
    fake_copy(2, 3, 2, 8192, start + 1 * MS, start + 3 * MS);
    fake_copy(99, 99, 99, 1, start + 1 * MS, start + 3 * MS);
    fake_set(512, start + 1 * MS, start + 2 * MS);
}

/* A training whose GPUs take turns: in each step one works for 5 ms, then the other one for 4 ms. */
static void take_turns(void) {
    for (int step = 0; step < 20; step++) {
        dlio_span fetch = dlio_begin("fetch", "data_loader");
        pause_ms(1);
        dlio_end(&fetch);
        uint64_t start = fake_now();
        pause_ms(10);
        fake_kernel("first_half", start, start + 5 * MS, 0, 7);
        fake_kernel("second_half", start + 5 * MS, start + 9 * MS, 1, 13);
        fake_kernel("second_half", start + 6 * MS, start + 9 * MS, 1, 14);
        fake_sync(3, start + 8 * MS, start + 9 * MS), fake_sync(2, start, start + 9 * MS);
    }
}

static void request(uint8_t **buffer, size_t *size, size_t *most) { *buffer = malloc(*size = 65536), *most = 0; }
static volatile int of_profiler;
#ifdef TWO
static void request_of(uint8_t **buffer, size_t *size, size_t *most, void *info) { request(buffer, size, most); }
static void complete(uint8_t *buffer, size_t size, size_t used, void *info) { of_profiler += used > 0; }
#else
static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t used) { of_profiler += used > 0; }
#endif

/* A profiler of the program, which must get a record. It is alone, or looked up by its name. */
static int profile(int is_alone, int is_looked_up) {
    void *handle;
#ifdef TWO
    struct fake_parameters parameters = {sizeof parameters, "profiler", NULL, 0, !is_alone};
    if (is_looked_up) {
        void *library = dlopen("libcupti.so.12", RTLD_NOW);
        int (*subscribe)(void **, void *, void *) = dlsym(library, "cuptiSubscribe");
        int (*enable)(uint32_t) = dlsym(library, "cuptiActivityEnable");
        EXPECT(subscribe(&handle, complete, NULL) == 0 && enable(10) == 0);
        return 42;
    }
    EXPECT(cuptiSubscribe_v2(&handle, complete, NULL, &parameters) == 0);
    EXPECT(cuptiActivityRegisterCallbacks_v2(handle, request_of, complete) == 0 && cuptiActivityEnable_v2(handle, 10, NULL) == 0);
#else
    EXPECT(cuptiSubscribe(&handle, complete, NULL) == 0);
    EXPECT(cuptiActivityRegisterCallbacks(request, complete) == 0 && cuptiActivityEnable(10) == 0);
#endif
    uint64_t now = fake_now();
    pause_ms(5);
    fake_kernel("while profiled", now, now + 1 * MS, 0, 7);
    EXPECT(cuptiActivityFlushAll(1) == 0);
    for (int ms = 0; ms < 10000 && !of_profiler; ms += 5) pause_ms(5);
    EXPECT(of_profiler == 1);
    return 42;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    start_cuda();
    int is_traced = fake_subscriptions() == 1;
    if (!strcmp(what, "work")) {
        work();
    } else if (!strcmp(what, "turns")) {
        take_turns();
    } else if (!strcmp(what, "invalid")) {
        uint64_t now = fake_now();
        pause_ms(5);
        fake_kernel("valid", now, now + 1, 0, 0);
        fake_kernel("without a start", 0, now, 0, 0), fake_kernel("still running", now, 0, 0, 0);
        fake_kernel("ends before its start", now, now - 1, 0, 0);
        fake_kernel("in the future", now, now + 3600000ull * MS, 0, 0), fake_kernel("in 1970", 5, 6, 0, 0);
        fake_drop(1000);
    } else if (!strcmp(what, "profiler")) {
        work();
        EXPECT(profile(argc > 2 && !strcmp(argv[2], "alone"), argc > 2 && !strcmp(argv[2], "looked up")) == 42);
    } else if (!strcmp(what, "fork")) {
        work();
        pid_t child = fork();
        int status;
        if (child == 0) {
            fake_forbid();
            if (argc > 2) execl(argv[0], argv[0], "work", NULL);
            exit(42);
        }
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    } else if (!strcmp(what, "unfinished")) {
        work();
        fake_kernel("unfinished", fake_now(), 0, 0, 0);
    } else if (!strcmp(what, "_exit")) {
        work();
        _exit(42);
    }
    EXPECT(!is_traced || fake_pool_limit() == 32);
    return 42;
}
