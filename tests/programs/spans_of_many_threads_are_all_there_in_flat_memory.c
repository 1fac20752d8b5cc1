/* Nested spans from four threads, as many as requested: each is recorded, and memory does not grow with their
 * number. */
//= run: 4 100000
//= events: span=4*100000
#include "../../tracer/include/dliotrace.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "expect.h"

static int spans;
static pthread_barrier_t warm, measured;

/* Returns the peak memory of this process in kB, without a recorded call: the file is skipped by default. */
static long most_memory(void) {
    char line[256];
    long most = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (most < 0 && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld kB", &most);
    fclose(status);
    return most;
}

static void some(int count) {
    static dlio_site outer = DLIO_SITE("step", "compute"), inner = DLIO_SITE("fetch", "data");
    for (int i = 0; i < count / 2; i++) {
        dlio_span step = dlio_begin_at(&outer);
        dlio_span fetch = dlio_begin_at(&inner);
        dlio_end(&fetch);
        dlio_end(&step);
    }
}

static void *work(void *unused) {
    some(spans / 10);
    pthread_barrier_wait(&warm);
    pthread_barrier_wait(&measured);
    some(spans - spans / 10);
    return NULL;
}

int main(int argc, char **argv) {
    enum { MORE_KB = 1024 };
    pthread_t threads[64];
    int count = atoi(argv[1]);
    spans = atoi(argv[2]);
    pthread_barrier_init(&warm, NULL, count + 1);
    pthread_barrier_init(&measured, NULL, count + 1);
    for (int i = 0; i < count; i++) pthread_create(&threads[i], NULL, work, NULL);
    pthread_barrier_wait(&warm);
    long before = most_memory();
    pthread_barrier_wait(&measured);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    EXPECT(most_memory() - before < MORE_KB);
    return PASSED;
}
