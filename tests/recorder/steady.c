/* Two threads read a file at a steady rate for some time; near the end, one waits for a pipe. Prints the number of its
 * preads, and of those that ended in its last second.
 * Usage: steady FILE MILLISECONDS STALL_MILLISECONDS exit|kill */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, CALLS_MAX = 1000000, BATCH = 25 };

static long calls[THREADS];
static double ended[THREADS][CALLS_MAX];
static double last;
static int stall_ms, ends[2];
static const char *file;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void stall(void) {
    char byte;
    if (read(ends[0], &byte, 1) != 1)
        exit(1);
}

static void *work(void *argument) {
    long thread = (long)argument;
    int fd = open(file, O_RDONLY), stalled = 0;
    char bytes[100];
    while (now() < last && calls[thread] < CALLS_MAX - BATCH) {
        for (int i = 0; i < BATCH; i++) {
            if (pread(fd, bytes, sizeof bytes, 0) != sizeof bytes)
                exit(1);
            ended[thread][calls[thread]++] = now();
        }
        if (thread == 0 && !stalled && now() > last - 0.5) {
            stall();
            stalled = 1;
        }
        rest(1);
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 5 || pipe(ends) != 0)
        return 1;
    file = words[1];
    stall_ms = atoi(words[3]);
    last = now() + atoi(words[2]) / 1e3;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    rest(atoi(words[2]) - 500 + stall_ms);
    if (write(ends[1], "x", 1) != 1)
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    double end = now();
    long all = 0, recent = 0;
    for (int thread = 0; thread < THREADS; thread++) {
        all += calls[thread];
        for (long i = 0; i < calls[thread]; i++)
            recent += ended[thread][i] > end - 1;
    }
    printf("%ld %ld\n", all, recent);
    fflush(stdout);
    if (strcmp(words[4], "kill") == 0)
        kill(getpid(), SIGKILL);
    return 0;
}
