/* Threads continue to read while the process exits: their last calls do not return before the end, nothing is lost,
 * and no second image is started. */
//= among: open=1
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static volatile int running;

static void *busy(void *path) {
    char bytes[16];
    int fd = *(int *)path;
    __sync_fetch_and_add(&running, 1);
    for (;;) pread(fd, bytes, 16, 0);
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, busy, &fd);
    while (running < 4) sched_yield();
    return PASSED;
}
