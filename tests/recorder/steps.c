/* Trains in numbered steps of some milliseconds; in one of them a thread reads slowly, and the others follow until the
 * given time has passed. Prints the number of steps.
 * Usage: steps FILE SLOW_STEP SLOW_MILLISECONDS MILLISECONDS */
#include "dliotrace.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 10, CALLS = 100 };

static int ends[2];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *answer(void *ms) {
    rest((long)ms);
    return write(ends[1], "x", 1) == 1 ? NULL : ms;
}

int main(int count, char **words) {
    if (count != 5 || pipe(ends) != 0)
        return 1;
    int slow = atoi(words[2]), step = 0, fd = open(words[1], O_RDONLY);
    double last = now() + atoi(words[4]) / 1e3;
    for (; now() < last; step++) {
        char bytes[100];
        dlio_span fetch = dlio_begin("fetch", "data");
        dlio_set_steps(&fetch, 0, step);
        for (int call = 0; call < CALLS; call++)
            if (pread(fd, bytes, sizeof bytes, 0) != sizeof bytes)
                return 1;
        if (step == slow) {
            pthread_t thread;
            pthread_create(&thread, NULL, answer, (void *)atol(words[3]));
            if (read(ends[0], bytes, 1) != 1)
                return 1;
            pthread_join(thread, NULL);
        }
        dlio_end(&fetch);
        dlio_span compute = dlio_begin("compute", "compute");
        dlio_set_steps(&compute, 0, step);
        rest(STEP_MS);
        dlio_end(&compute);
    }
    printf("%d\n", step);
    return 0;
}
