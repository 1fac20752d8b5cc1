/* A timer interrupts a loop of preads thousands of times per second, often during the tracer's own work, and its
 * handler writes. The program reports its number of writes as the length of a file: the trace must contain that
 * number. */
//= case: one thread
//= run: 1
//= among: pread=400000 write=1000 open=2 fork=0
//= bytes: pread=400000*16 write=1000
//= case: three threads
//= run: 3
//= among: pread=3*400000 write=1000 open=2
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/syscall.h>
#include "expect.h"

static int in, out;
static volatile int wrote;

static void tick(int signal) {
    int before = errno;
    if (wrote < 1000 && __sync_fetch_and_add(&wrote, 1) < 1000) EXPECT(write(out, "x", 1) == 1);
    errno = before;
}

static void *reads(void *none) {
    char bytes[16];
    for (int i = 0; i < 400000; i++) EXPECT(pread(in, bytes, 16, i % 256) == 16);
    /* Runs until the handler has run often enough: signals are sent to the process and handled by this thread. */
    while (wrote < 1000) raise(SIGALRM);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    struct itimerval every = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    in = open(argv[0], O_RDONLY);
    out = open("ticks", O_CREAT | O_WRONLY | O_APPEND, 0600);
    EXPECT(in >= 0 && out >= 0);
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    int count = atoi(argv[1]);
    for (int i = 0; i < count; i++) EXPECT(pthread_create(&threads[i], NULL, reads, NULL) == 0);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    setitimer(ITIMER_REAL, &never, NULL);
    return PASSED;
}
