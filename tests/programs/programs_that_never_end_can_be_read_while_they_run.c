/* The harness reads the trace of a child that runs forever when its parent has exited. Here the parent waits until
 * the child has made its calls, and exits. An alarm kills the child later. */
//= among: pread=5000
//= processes: *
//= endings: *
//= waits: no
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    int ends[2];
    syscall(SYS_pipe, ends);
    if (fork() == 0) {
        alarm(3);
        int fd = open(argv[0], O_RDONLY);
        for (int i = 0; i < 5000; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
        syscall(SYS_write, ends[1], "x", 1);
        for (;;) pause();
    }
    EXPECT(syscall(SYS_read, ends[0], bytes, 1) == 1);
    return PASSED;
}
