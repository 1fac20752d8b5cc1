/* Threads and processes that wait for one another in known ways. `jobs NAME` does one of them and prints what a trace of it must
 * say: threads, addresses, times by its own clock. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 40, MS = 1000000 };

static int own_id(void) { return (int)syscall(SYS_gettid); }

/* Bypasses all hooks: not a wait in the trace. */
static void nap(long ns) { syscall(SYS_nanosleep, &(struct timespec){0, ns}, NULL); }

static int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void spin(int64_t ns) {
    for (int64_t until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns; clock_ns(CLOCK_THREAD_CPUTIME_ID) < until;) {}
}

static sem_t there, back;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER, returned = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int turn, other_id;

/* Each thread waits a millisecond before its turn, so that the other one is asleep when it is woken. */
static void *answers(void *unused) {
    other_id = own_id();
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&there);
        nap(MS);
        sem_post(&back);
    }
    return unused;
}

static void semaphores(void) {
    pthread_t other;
    sem_init(&there, 0, 0);
    sem_init(&back, 0, 0);
    pthread_create(&other, NULL, answers, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        nap(MS);
        sem_post(&there);
        sem_wait(&back);
    }
    pthread_join(other, NULL);
    printf("%zu %d\n%zu %d\n", (size_t)&there, own_id(), (size_t)&back, other_id);
}

static void wait_for(int wanted, pthread_cond_t *condition) {
    while (turn != wanted) pthread_cond_wait(condition, &mutex);
}

static void *answers_by_conditions(void *unused) {
    other_id = own_id();
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(1, &moved);
        nap(MS);
        turn = 0;
        pthread_cond_signal(&returned);
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void conditions(void) {
    pthread_t other;
    pthread_create(&other, NULL, answers_by_conditions, NULL);
    nap(5 * MS);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROUNDS; i++) {
        nap(MS);
        turn = 1;
        pthread_cond_broadcast(&moved);
        wait_for(0, &returned);
    }
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
    printf("%zu %d\n%zu %d\n", (size_t)&moved, own_id(), (size_t)&returned, other_id);
}

static void *arrives_late(void *unused) {
    other_id = own_id();
    for (int i = 0; i < ROUNDS; i++) {
        nap(2 * MS);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

static void barriers(void) {
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&other, NULL, arrives_late, NULL);
    for (int i = 0; i < ROUNDS; i++) pthread_barrier_wait(&barrier);
    pthread_join(other, NULL);
    printf("%zu %d\n", (size_t)&barrier, other_id);
}

static int wakes_by_c11(void *unused) {
    (void)unused;
    other_id = own_id();
    nap(3 * MS);
    mtx_lock((mtx_t *)&mutex);
    turn = 2;
    cnd_signal((cnd_t *)&moved);
    mtx_unlock((mtx_t *)&mutex);
    return 0;
}

static void conditions_of_c11(void) {
    thrd_t other;
    mtx_lock((mtx_t *)&mutex);
    thrd_create(&other, wakes_by_c11, NULL);
    while (turn != 2) cnd_wait((cnd_t *)&moved, (mtx_t *)&mutex);
    mtx_unlock((mtx_t *)&mutex);
    thrd_join(other, NULL);
    printf("%zu %d\n", (size_t)&moved, other_id);
}

static _Atomic int asked, answered;

static void futex_until(_Atomic int *word, int wanted) {
    for (int seen; (seen = *word) < wanted;) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(_Atomic int *word) {
    ++*word;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *answers_by_futexes(void *unused) {
    other_id = own_id();
    for (int i = 1; i <= ROUNDS; i++) {
        futex_until(&asked, i);
        nap(MS);
        futex_wake(&answered);
    }
    return unused;
}

/* Waits through the function syscall, like Rust and C++. */
static void futexes(void) {
    pthread_t other;
    pthread_create(&other, NULL, answers_by_futexes, NULL);
    for (int i = 1; i <= ROUNDS; i++) {
        nap(MS);
        futex_wake(&asked);
        futex_until(&answered, i);
    }
    pthread_join(other, NULL);
    printf("%zu %d\n%zu %d\n", (size_t)&asked, own_id(), (size_t)&answered, other_id);
}

/* Each thread locks, holds and unlocks it; the second variant locks like Python. */
static void *locks(void *tries) {
    for (int i = 0; i < ROUNDS; i++) {
        if (tries == NULL || sem_trywait(&there) != 0) sem_wait(&there);
        nap(2 * MS);
        sem_post(&there);
        if (tries != NULL) nap(MS / 2);
    }
    return NULL;
}

static void lock(void *tries) {
    pthread_t other;
    sem_init(&there, 0, 1);
    pthread_create(&other, NULL, locks, tries);
    locks(tries);
    pthread_join(other, NULL);
    printf("%zu\n", (size_t)&there);
}

/* Counters of the work between two sleeps. */
static void computes(void) {
    usleep(2000);
    spin(50 * MS);
    usleep(2000);
    printf("%d\n", own_id());
}

/* A maker that always works delivers its results through a pipe, or announces them through an eventfd. */
static void delivers(int by_eventfd) {
    int ends[2];
    uint64_t one = 1;
    pipe(ends);
    int to = by_eventfd ? eventfd(0, 0) : ends[1];
    for (int i = 0; i < 10; i++) {
        spin(5 * MS);
        write(to, &one, by_eventfd ? sizeof one : 1);
    }
    printf("%d\n", own_id());
}

/* Pages that are not in memory, if the file system lets them go. */
static void faults(void) {
    enum { SIZE = 4 << 20, PAGE = 4096 };
    struct rusage before, after;
    char *bytes = calloc(1, SIZE);
    int fd = open("cold", O_CREAT | O_RDWR, 0600);
    write(fd, bytes, SIZE);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    char *mapped = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
    madvise(mapped, SIZE, MADV_RANDOM);
    usleep(2000);
    getrusage(RUSAGE_THREAD, &before);
    int sum = 0;
    for (int i = 0; i < SIZE; i += PAGE) sum += mapped[i];
    getrusage(RUSAGE_THREAD, &after);
    usleep(2000 + sum);
    printf("%ld\n", after.ru_majflt - before.ru_majflt);
}

/* A parent waits for its child. One kind of parent waits for one semaphore at two addresses. */
static void between_processes(sem_t *semaphore) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5; i++) {
            nap(3 * MS);
            sem_post(semaphore);
        }
        exit(0);
    }
    for (int i = 0; i < 5; i++) sem_wait(semaphore);
    waitpid(child, NULL, 0);
    printf("%d %d\n", getpid(), child);
}

static void named(void) {
    char name[64];
    snprintf(name, sizeof name, "/dlio-evidence-%d", getpid());
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    sem_unlink(name);
    between_processes(semaphore);
}

static void unnamed(void) {
    sem_t *semaphore = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(semaphore, 1, 0);
    between_processes(semaphore);
}

/* A thread waits while its process forks. The child does not have this thread, and has its own ring at the same addresses. */
static void *waits(void *unused) {
    sem_wait(&there);
    return unused;
}

static void forks(void) {
    pthread_t other;
    sem_init(&there, 0, 0);
    pthread_create(&other, NULL, waits, NULL);
    nap(5 * MS);
    pid_t child = fork();
    if (child == 0) {
        semaphores();
        exit(0);
    }
    waitpid(child, NULL, 0);
    sem_post(&there);
    pthread_join(other, NULL);
}

int main(int argc, char **argv) {
    const char *job = argc > 1 ? argv[1] : "";
    if (!strcmp(job, "semaphores")) semaphores();
    else if (!strcmp(job, "conditions")) conditions();
    else if (!strcmp(job, "barriers")) barriers();
    else if (!strcmp(job, "c11")) conditions_of_c11();
    else if (!strcmp(job, "futexes")) futexes();
    else if (!strcmp(job, "lock")) lock(NULL);
    else if (!strcmp(job, "tried lock")) lock(argv);
    else if (!strcmp(job, "computes")) computes();
    else if (!strcmp(job, "delivers")) delivers(0);
    else if (!strcmp(job, "delivers by eventfd")) delivers(1);
    else if (!strcmp(job, "faults")) faults();
    else if (!strcmp(job, "named")) named();
    else if (!strcmp(job, "unnamed")) unnamed();
    else if (!strcmp(job, "forks")) forks();
    else return 1;
    return 0;
}
