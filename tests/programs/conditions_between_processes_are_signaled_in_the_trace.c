/* Signals of conditions that processes share are events, other signals are not. Results are those of the C library. */
//= compile: -pthread
//= processes: 2
//= endings: exit 0, exit 42
//= among: pthread_cond_signal=3 pthread_cond_wait=>=1
//= among: fork=1
//= passes: off
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "expect.h"

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int made;
};

static void nap(void) { syscall(SYS_nanosleep, &(struct timespec){0, 5000000}, NULL); }

int main(void) {
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutex;
    pthread_condattr_t changed;
    pthread_cond_t own;
    EXPECT(pthread_mutexattr_init(&mutex) == 0 && pthread_mutexattr_setpshared(&mutex, 1) == 0);
    EXPECT(pthread_condattr_init(&changed) == 0);
    // Private ones make no events, neither without attributes nor with a clock.
    EXPECT(pthread_cond_init(&own, NULL) == 0 && pthread_cond_signal(&own) == 0 && pthread_cond_destroy(&own) == 0);
    EXPECT(pthread_condattr_setclock(&changed, CLOCK_MONOTONIC) == 0 && pthread_cond_init(&own, &changed) == 0);
    EXPECT(pthread_cond_signal(&own) == 0);
    EXPECT(pthread_condattr_setpshared(&changed, 1) == 0);
    EXPECT(pthread_mutex_init(&shared->mutex, &mutex) == 0 && pthread_cond_init(&shared->changed, &changed) == 0);
    if (fork() == 0) {
        for (int i = 0; i < 2; i++) {
            nap();
            EXPECT(pthread_mutex_lock(&shared->mutex) == 0);
            shared->made++;
            EXPECT((i == 0 ? pthread_cond_signal(&shared->changed) : pthread_cond_broadcast(&shared->changed)) == 0);
            EXPECT(pthread_mutex_unlock(&shared->mutex) == 0);
        }
        _exit(0);
    }
    EXPECT(pthread_mutex_lock(&shared->mutex) == 0);
    while (shared->made < 2) EXPECT(pthread_cond_wait(&shared->changed, &shared->mutex) == 0);
    EXPECT(pthread_mutex_unlock(&shared->mutex) == 0);
    EXPECT(wait(NULL) > 0);
    EXPECT(pthread_cond_signal(&shared->changed) == 0 && pthread_cond_signal(&own) == 0);
    // A private condition at the address of a former shared one.
    EXPECT(pthread_cond_destroy(&shared->changed) == 0 && pthread_cond_init(&shared->changed, NULL) == 0);
    EXPECT(pthread_cond_signal(&shared->changed) == 0 && pthread_cond_destroy(&own) == 0);
    return PASSED;
}
