/* Eight threads at a time make ten reads each: every read is recorded under its own thread id, and the ring file
 * does not grow with the number of threads. */
//= events: open=1 pread=10000
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int fd;

static void *reads(void *none) {
    char bytes[16];
    for (int i = 0; i < 10; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[8];
    fd = open(argv[0], O_RDONLY);
    for (int round = 0; round < 125; round++) {
        for (int i = 0; i < 8; i++) EXPECT(pthread_create(&threads[i], NULL, reads, NULL) == 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    return PASSED;
}
