//= among: open=1 read=1000 pipe=1
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int ends[2];

static void *blocks(void *path) {
    char bytes[16];
    int fd = open(path, O_RDONLY);
    for (int i = 0; i < 1000; i++) EXPECT(read(fd, bytes, 1) == 1);
    syscall(1, ends[1], "!", 0);
    __sync_synchronize();
    ends[0] |= 1 << 30;
    read(ends[0] & 0xffff, bytes, 1); /* never returns */
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread;
    void *result;
    EXPECT(pipe(ends) == 0);
    pthread_create(&thread, NULL, blocks, argv[0]);
    while (!(*(volatile int *)&ends[0] >> 30)) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, &result);
    EXPECT(result == PTHREAD_CANCELED);
    return PASSED;
}
