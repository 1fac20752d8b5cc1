/* A program disables the time-stamp counter, which the kernel's clocks in the process also read. It continues to
 * run, with threads and children, and its times are on one clock. */
//= among: open=1 read=1 pread=3*1001
//= processes: 2
//= endings: exit 42, exit 42
//= case: by prctl
//= run: prctl
//= case: by the kernel's call
//= run: syscall
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

static int fd;

static void *work(void *unused) {
    char bytes[16];
    for (int i = 0; i < 1001; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    return unused;
}

static void never(int signal) {
    (void)signal;
    _exit(1);
}

int main(int argc, char **argv) {
    char bytes[16];
    fd = open(argv[0], O_RDONLY);
    EXPECT(argc > 1 && read(fd, bytes, 16) == 16);
    signal(SIGSEGV, never);
    if (strcmp(argv[1], "prctl") == 0) {
        EXPECT(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
    } else {
        EXPECT(syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
    }
    work(NULL);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        work(NULL);
        return PASSED;
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
    return PASSED;
}
