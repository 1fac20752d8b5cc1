/* Ranges of every kind, and misuse of each. Exits with 42 if the results are those of NVTX's documentation; without a tool
 * only the calls are made. The argument is the number of pushes to be timed, in nanoseconds on standard output. */
#include "nvtx.h"
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(yes) do { if (attached && !(yes)) return printf("line %d: %s\n", __LINE__, #yes), 1; } while (0)

static int attached;

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

static void *end_elsewhere(void *range) {
    nvtx_end((uint64_t)range);
    nvtx_push("of a thread that ends");
    return NULL;
}

static int names(void) {
    char changing[] = "copied at once", *endless = malloc(1 << 20);
    EXPECT(nvtx_push(changing) == 0);
    memset(changing, 'x', sizeof changing - 1);
    pause_ms(5);
    EXPECT(nvtx_pop() == 0);
    memset(endless, 'k', 1 << 20);
    endless[(1 << 20) - 1] = 0;
    nvtx_push(endless), nvtx_pop();
    nvtx_push_wide(L"größe"), nvtx_pop();
    nvtx_push(NULL), nvtx_pop();
    nvtx_event wide = nvtx_named(NVTX_WIDE, L"wide event"), unknown = nvtx_named(77, "no such type");
    nvtx_push_event(&wide), nvtx_pop();
    nvtx_push_event(&unknown), nvtx_pop();
    nvtx_push_event(NULL), nvtx_pop();
    free(endless);
    return 0;
}

static int domains(void) {
    char name[] = "NCCL", text[] = "all_reduce";
    void *nccl = nvtx_domain(name), *own = nvtx_domain("own"), *string = nvtx_register(nccl, text);
    EXPECT(nccl && own && string && nccl != own);
    EXPECT(nvtx_domain("NCCL") == nccl && nvtx_register(nccl, "all_reduce") == string);
    memset(name, 0, sizeof name), memset(text, 0, sizeof text);
    nvtx_event reduce = nvtx_named(NVTX_REGISTERED, string), step = nvtx_named(NVTX_BYTES, "own step");
    EXPECT(nvtx_domain_push(own, &step) == 0);
    EXPECT(nvtx_domain_push(nccl, &reduce) == 0);
    EXPECT(nvtx_domain_push(own, &step) == 1);
    EXPECT(nvtx_domain_pop(own) == 1);
    EXPECT(nvtx_domain_pop(own) == 0);
    EXPECT(nvtx_domain_pop(own) < 0);
    EXPECT(nvtx_domain_pop(nccl) == 0);
    nvtx_event stray = nvtx_named(NVTX_REGISTERED, (void *)0x1234);
    nvtx_domain_push((void *)0x5678, &stray), nvtx_domain_pop((void *)0x5678);
    return 0;
}

/* A child inherits open ranges, and ends none of them. */
static int fork_child(void) {
    void *string = nvtx_register(NULL, "registered before the fork");
    uint64_t range = nvtx_start("started before the fork");
    nvtx_push("pushed before the fork");
    pid_t child = fork();
    if (child == 0) {
        nvtx_event event = nvtx_named(NVTX_REGISTERED, string);
        nvtx_push_event(&event);
        nvtx_pop(), nvtx_pop(), nvtx_pop(), nvtx_end(range);
        exit(42);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    nvtx_pop(), nvtx_end(range);
    return 0;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int argc, char **argv) {
    int timed = argc > 1 ? atoi(argv[1]) : 0;
    attached = nvtx_initialize() && nvtx_functions[9];
    EXPECT(nvtx_pop() < 0);
    for (int i = 0; i < 200; i++) EXPECT(nvtx_push("deep") == i);
    for (int i = 200; i-- > 0;) EXPECT(nvtx_pop() == i);
    EXPECT(nvtx_pop() < 0);
    nvtx_mark("mark");
    if (names() || domains() || fork_child()) return 1;
    pthread_t thread;
    uint64_t range = nvtx_start("across threads");
    pause_ms(20);
    pthread_create(&thread, NULL, end_elsewhere, (void *)range);
    pthread_join(thread, NULL);
    nvtx_end(range), nvtx_end(12345), nvtx_end(0);
    char registered[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(registered, sizeof registered, "step %d", i);
        nvtx_event event = nvtx_named(NVTX_REGISTERED, nvtx_register(NULL, registered));
        if (i == 0 || i == 19999) nvtx_push_event(&event), nvtx_pop();
    }
    double start = now();
    for (int i = 0; i < timed; i++) nvtx_push("timed"), nvtx_pop();
    if (timed) printf("%.1f\n", (now() - start) / timed);
    return 42;
}
