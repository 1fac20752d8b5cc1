//= events: open=1 pread=64*3000
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int fd;
static pthread_barrier_t start;

static void *reads(void *none) {
    char bytes[16];
    pthread_barrier_wait(&start);
    for (int i = 0; i < 3000; i++) EXPECT(pread(fd, bytes, 16, i) == 16);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    fd = open(argv[0], O_RDONLY);
    pthread_barrier_init(&start, NULL, 64);
    for (int i = 0; i < 64; i++) EXPECT(pthread_create(&threads[i], NULL, reads, NULL) == 0);
    for (int i = 0; i < 64; i++) pthread_join(threads[i], NULL);
    return PASSED;
}
