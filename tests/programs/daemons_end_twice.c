/* daemon() forks, and its parent exits inside the C library without a hook: the traces of both processes are
 * complete. The first process waits until the daemon has closed a pipe. */
//= among: pread=2000 open=1
//= processes: 3
//= endings: exit 0, exit 42, exit 42
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char byte;
    int ends[2], status;
    syscall(SYS_pipe, ends);
    pid_t child = fork();
    if (child > 0) {
        syscall(SYS_close, ends[1]);
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        EXPECT(syscall(SYS_read, ends[0], &byte, 1) == 0);
        return PASSED;
    }
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    EXPECT(daemon(1, 0) == 0);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    return PASSED;
}
