/* A child that goes on for ever is read by the harness's rules once its parent has gone; here the parent waits until the
 * child has done its work, and leaves it running. The child is killed by its own alarm later. */
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
