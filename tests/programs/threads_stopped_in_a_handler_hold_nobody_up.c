/* Like a garbage collector that stops the threads of its program: one thread waits in a signal handler, at any point
 * in its code, until another one has named files. The other thread must not wait for the first. */
//= compile: -pthread
//= among: stat=>=3000
//= lost: 0
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include "expect.h"

enum { ROUNDS = 300, NAMES = 10 };
static sem_t stopped, go_on;
static atomic_int finished;

static void stop(int signal) {
    (void)signal;
    int before = errno;
    sem_post(&stopped);
    while (sem_wait(&go_on) != 0) {
    }
    errno = before;
}

static void name(const char *whose, int number) {
    struct stat found;
    char path[60];
    sprintf(path, "/no/such/folder/%s-%d", whose, number);
    EXPECT(stat(path, &found) == -1);
}

static void *names(void *unused) {
    for (int i = 0; !atomic_load(&finished); i++) name("worker", i);
    return unused;
}

int main(void) {
    pthread_t worker;
    EXPECT(sem_init(&stopped, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);
    EXPECT(signal(SIGUSR1, stop) != SIG_ERR);
    EXPECT(pthread_create(&worker, NULL, names, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        EXPECT(pthread_kill(worker, SIGUSR1) == 0);
        while (sem_wait(&stopped) != 0) {
        }
        for (int i = 0; i < NAMES; i++) name("main", round * NAMES + i);
        sem_post(&go_on);
    }
    atomic_store(&finished, 1);
    pthread_join(worker, NULL);
    return PASSED;
}
