/* Thirty generations of processes, each a child of the previous one, each with its own calls; every second one exits
 * without its destructors. */
//= events: open=1 pread=30*50 fork=29 close=0
//= processes: 30
#include <fcntl.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY), status;
    for (int generation = 0; generation < 30; generation++) {
        for (int i = 0; i < 50; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
        pid_t child = generation < 29 ? fork() : -1;
        if (child == 0) continue;
        if (child > 0) EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
        if (generation % 2) _exit(PASSED);
        return PASSED;
    }
}
