/* A signal for a parent that waits in vfork is handled before vfork returns: calls of the handler belong to the
 * parent. A child that calls vfork itself has no trace of its own. */
//= among: pwrite=20 vfork=20
//= on handled: open=1 pwrite=20
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

static int fd;

static void handle(int signal) {
    (void)signal;
    EXPECT(pwrite(fd, "x", 1, 0) == 1);
}

int main(void) {
    fd = open("handled", O_CREAT | O_RDWR, 0600);
    signal(SIGUSR1, handle);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            if (i % 2 == 0) {
                if (vfork() == 0) _exit(0);
                pwrite(fd, "child", 5, 0);
            }
            kill(getppid(), SIGUSR1);
            _exit(0);
        }
        EXPECT(waitpid(child, NULL, 0) == child);
    }
    return PASSED;
}
