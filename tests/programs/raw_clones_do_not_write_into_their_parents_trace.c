/* A child created by a raw system call: the tracer has no hook for it and detects the child on its own. */
//= among: open=1 pread=3000
//= on /program: open=1 pread=>=2999
//= processes: 2
//= endings: exit 42, exit 42
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    if (child == 0) _exit(PASSED);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
    return PASSED;
}
