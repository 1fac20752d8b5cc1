/* A rank of a training: a thread reads a sample per step, the rank computes for each, and all ranks meet at a barrier.
 * The ranks may be in different namespaces; they share only files.
 * Usage: rank FOLDER RANKS STEPS; FOLDER contains RANK.sample of each rank and `barrier`, an empty file */
#include "dliotrace.h"
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 65536, AHEAD = 2, COMPUTE_MS = 10 };

/* A barrier in a file of zeros: the first rank to come prepares it. */
struct meeting {
    atomic_int state;
    pthread_barrier_t barrier;
};

static sem_t made, room;
static char path[4096];
static int steps;

static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void *reads(void *into) {
    for (int step = 0; step < steps; step++) {
        sem_wait(&room);
        int fd = open(path, O_RDONLY);
        if (fd < 0 || read(fd, into, SIZE) != SIZE)
            exit(1);
        close(fd);
        sem_post(&made);
    }
    return NULL;
}

static pthread_barrier_t *meet(const char *file, int ranks) {
    int fd = open(file, O_RDWR);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)) != 0)
        exit(1);
    struct meeting *meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    int expected = 0;
    if (atomic_compare_exchange_strong(&meeting->state, &expected, 1)) {
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&meeting->barrier, &shared, ranks);
        atomic_store(&meeting->state, 2);
    }
    while (atomic_load(&meeting->state) != 2)
        rest(1);
    return &meeting->barrier;
}

int main(int count, char **words) {
    static char sample[SIZE], file[4096];
    const char *slurm = getenv("SLURM_PROCID"), *open_mpi = getenv("OMPI_COMM_WORLD_RANK");
    if (count != 4 || (!slurm && !open_mpi))
        return 2;
    snprintf(path, sizeof path, "%s/%s.sample", words[1], slurm ? slurm : open_mpi);
    snprintf(file, sizeof file, "%s/barrier", words[1]);
    steps = atoi(words[3]);
    sem_init(&made, 0, 0);
    sem_init(&room, 0, AHEAD);
    pthread_barrier_t *barrier = meet(file, atoi(words[2]));
    pthread_barrier_wait(barrier);
    pthread_t reader;
    pthread_create(&reader, NULL, reads, sample);
    for (int step = 0; step < steps; step++) {
        dlio_span fetch = dlio_begin("fetch", "data");
        dlio_set_steps(&fetch, 0, step);
        while (sem_wait(&made) != 0) {
        }
        dlio_end(&fetch);
        sem_post(&room);
        dlio_span compute = dlio_begin("compute", "compute");
        dlio_set_steps(&compute, 0, step);
        rest(COMPUTE_MS);
        dlio_end(&compute);
        dlio_span all = dlio_begin("all_reduce", "comm");
        dlio_set_steps(&all, 0, step);
        pthread_barrier_wait(barrier);
        dlio_end(&all);
    }
    return 0;
}
