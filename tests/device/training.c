/* A training loop on the simulated device: `training DRIVER MODE`. Prints the times of the events that it recorded, by which a test
 * checks the trace: `zero T`, then `event T` for each; times are nanoseconds of CLOCK_BOOTTIME. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tracer/include/dliotrace.h"
#include "../libraries/expect.h"
#include "fake.h"

static void *library;

#define FAKE(name) ((__typeof__(&name))dlsym(library, #name))
#define is(text) (strcmp(mode, text) == 0)

static const char *mode;
static void *stream;
static int steps = 60;
static int64_t host_us = 500, wait_us = 2000, work_us = 1000;

static void next_begins(int step) { dlio_next_entered(stream, 1, step); }

static void next_ends(int has_batch) { dlio_next_returned(stream, has_batch); }

/* One call of next(), as the mode requires. */
static void fetch(int step) {
    errno = ENOMEM;
    int is_captured = is("captured") && step >= 10 && step < 20;
    if (is_captured) FAKE(fake_capture)(FAKE(fake_stream)(1), 1);
    if (is("device-lost") && step == 10) FAKE(fake_lose_device)();
    if (is("context-destroyed") && step == 10) FAKE(fake_destroy_context)();
    if (is("context-destroyed") && step == 20) FAKE(fake_create_context)();
    next_begins(step);
    if (is("context-destroyed-within") && step == 10) {
        FAKE(fake_destroy_context)();
        FAKE(fake_create_context)();
    }
    if (is("nested")) {
        next_begins(step);
        next_ends(1);
    }
    usleep(wait_us);
    if (is("stream-changes") && step % 10 == 3) stream = FAKE(fake_stream)(stream == FAKE(fake_stream)(1) ? 2 : 1);
    errno = ENOMEM;
    next_ends(1);
    EXPECT(errno == ENOMEM);
    if (is_captured) FAKE(fake_capture)(FAKE(fake_stream)(1), 0);
}

static void compute(void) {
    FAKE(fake_launch)(stream, work_us * 1000);
    usleep(host_us);
}

static void train(void) {
    for (int step = 0; step < steps; step++) {
        fetch(step);
        /* So much that a delay of the host does not reach the device. */
        if (is("hidden") && step == 0) FAKE(fake_launch)(stream, 200 * 1000000);
        if (is("killed-queue") && step == 30) FAKE(fake_launch)(stream, 60ll * 1000000000);
        compute();
    }
    next_begins(steps);
    next_ends(0);
}

static void child(void) {
    long calls = FAKE(fake_calls)();
    for (int step = 0; step < 5; step++) {
        next_begins(step);
        next_ends(1);
    }
    EXPECT(FAKE(fake_calls)() == calls);
}

static void fork_children(void) {
    for (int how = 0; how < 3; how++) {
        next_begins(100 + how);
        pid_t pid = fork();
        EXPECT(pid >= 0);
        if (pid == 0) {
            child();
            if (how == 0) exit(0);
            if (how == 1) _exit(0);
            execl("/bin/true", "true", NULL);
            _exit(1);
        }
        int status;
        EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
        next_ends(1);
    }
}

static sem_t ready, done;

static void *other_thread(void *unused) {
    sem_wait(&ready);
    for (int i = 0; i < 7; i++) {
        next_begins(i);
        next_ends(1);
    }
    sem_post(&done);
    return NULL;
}

static void run_other_thread(void) {
    pthread_t thread;
    sem_init(&ready, 0, 0);
    sem_init(&done, 0, 0);
    pthread_create(&thread, NULL, other_thread, NULL);
    next_begins(100);
    sem_post(&ready);
    sem_wait(&done);
    next_ends(1);
    pthread_join(thread, NULL);
}

/* Prints what a step costs the host. */
static void measure(void) {
    const int count = 20000;
    int64_t start = FAKE(fake_now)();
    for (int i = 0; i < count; i++) {
        dlio_next_entered(NULL, 1, i);
        dlio_next_returned(NULL, 1);
    }
    printf("ns %lld calls %ld\n", (long long)(FAKE(fake_now)() - start) / count, FAKE(fake_calls)() / count);
}

int main(int count, char **arguments) {
    EXPECT(count == 3);
    mode = arguments[2];
    if (is("no-driver")) {
        stream = NULL;
        next_begins(0);
        next_ends(1);
        return PASSED;
    }
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    EXPECT(library);
    if (is("not-initialized")) {
        next_begins(0);
        next_ends(1);
        return PASSED;
    }
    FAKE(fake_start)(is("drifting") ? 15e-6 : 0);
    if (is("cost")) {
        measure();
        return PASSED;
    }
    stream = FAKE(fake_stream)(is("captured") ? 1 : 0);
    if (is("hidden") || is("full")) work_us = 4000;
    if (is("full")) wait_us = host_us = 50, steps = 200;
    if (is("error")) FAKE(fake_set_error)(2);
    dlio_instant("zero", "app");
    printf("zero %lld\n", (long long)FAKE(fake_now)());
    train();
    if (is("fork")) fork_children();
    if (is("thread")) run_other_thread();
    if (is("error")) EXPECT(((int (*)(void))dlsym(library, "hipGetLastError"))() == 2);
    for (int i = 0; i < FAKE(fake_recorded)(); i++) printf("event %lld\n", (long long)FAKE(fake_completed)(i));
    fflush(stdout);
    EXPECT(FAKE(fake_events)() <= 2 * 129);
    if (is("exec")) execl("/bin/sh", "sh", "-c", "exit 42", NULL);
    if (!is("killed-queue") && !is("device-lost")) FAKE(fake_drain)(stream);
    if (is("quick")) _exit(PASSED);
    return PASSED;
}
