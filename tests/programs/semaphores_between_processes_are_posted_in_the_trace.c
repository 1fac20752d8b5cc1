/* Posts of semaphores that processes share are events, other posts are not. Results and errno are those of the C
 * library. */
//= compile: -pthread
//= processes: 2
//= endings: exit 0, exit 42
//= among: sem_post=7 sem_wait=>=1
//= among: fork=1
//= passes: off
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include "expect.h"

static void nap(void) { syscall(SYS_nanosleep, &(struct timespec){0, 5000000}, NULL); }

int main(void) {
    char name[64];
    sem_t own, *named, *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(name, sizeof name, "/dlio-test-%d", getpid());
    errno = 0;
    EXPECT(sem_open(name, 0) == SEM_FAILED && errno == ENOENT);
    named = sem_open(name, O_CREAT | O_EXCL, 0600, 1);
    EXPECT(named != SEM_FAILED && sem_init(mapped, 1, 0) == 0 && sem_init(&own, 0, 0) == 0);
    // Opened twice and closed once: it is still open.
    EXPECT(sem_open(name, 0) == named && sem_close(named) == 0 && sem_unlink(name) == 0);
    EXPECT(sem_trywait(named) == 0);
    errno = 0;
    EXPECT(sem_trywait(named) == -1 && errno == EAGAIN);
    EXPECT(sem_post(named) == 0);
    if (fork() == 0) {
        for (int i = 0; i < 2; i++) {
            nap();
            EXPECT(sem_post(named) == 0 && sem_post(mapped) == 0);
        }
        _exit(0);
    }
    for (int i = 0; i < 2; i++) EXPECT(sem_wait(mapped) == 0);
    for (int i = 0; i < 3; i++) EXPECT(sem_wait(named) == 0);
    EXPECT(wait(NULL) > 0);
    // A private semaphore at the address of a former shared one.
    EXPECT(sem_post(mapped) == 0 && sem_destroy(mapped) == 0 && sem_init(mapped, 0, 0) == 0);
    EXPECT(sem_post(mapped) == 0 && sem_post(&own) == 0 && sem_trywait(&own) == 0 && sem_destroy(&own) == 0);
    EXPECT(sem_post(named) == 0 && sem_close(named) == 0);
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    EXPECT(pthread_cond_signal(&condition) == 0 && pthread_cond_broadcast(&condition) == 0);
    EXPECT(cnd_signal((cnd_t *)&condition) == thrd_success && cnd_broadcast((cnd_t *)&condition) == thrd_success);
    return PASSED;
}
