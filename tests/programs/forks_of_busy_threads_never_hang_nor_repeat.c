/* 200 forks while other threads record and flush. Each child has its own trace with only its own events, and none
 * waits for a lock whose owner exists only in the parent. */
//= among: fork=200 write=200 close=0
//= on child.out: open=1 write=200
//= processes: 201
//= formats: native
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include "expect.h"

static volatile int stop;

static void *busy(void *path) {
    char bytes[16];
    int fd = open(path, O_RDONLY);
    while (!stop)
        for (int i = 0; i < 1000; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[3];
    int out = open("child.out", O_CREAT | O_WRONLY | O_APPEND, 0600);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, busy, argv[0]);
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            EXPECT(write(out, "x", 1) == 1);
            if (i % 2) _exit(PASSED);
            exit(PASSED);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == PASSED);
    }
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return PASSED;
}
