/* Runs under valgrind, whose memcheck follows every change of the stack: it must accept the calls of a second
 * thread, for which the tracer needs its own memory. */
//= needs: valgrind
//= on data: open=1 write=2 close=1
//= processes: >=1
//= endings: *
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int fd;

static void *writes(void *unused) {
    EXPECT(write(fd, "x", 1) == 1);
    return unused;
}

int main(int argc, char **argv) {
    if (argc == 1) {
        execlp("valgrind", "valgrind", "-q", "--error-exitcode=99", argv[0], "checked", (char *)NULL);
        EXPECT(!"exec");
    }
    pthread_t thread;
    EXPECT((fd = open("data", O_CREAT | O_WRONLY, 0600)) >= 0 && write(fd, "x", 1) == 1);
    EXPECT(pthread_create(&thread, NULL, writes, NULL) == 0 && pthread_join(thread, NULL) == 0);
    close(fd);
    return PASSED;
}
