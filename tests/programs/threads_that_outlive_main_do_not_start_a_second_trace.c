/* Threads go on reading while the process ends: what they begin then does not come back before the end, nothing is lost,
 * and no second image is begun. */
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
