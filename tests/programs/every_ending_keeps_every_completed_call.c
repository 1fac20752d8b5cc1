/* The twelve ways to end, after one event, a thousand and a million. The file is opened and read with pread; the
 * directives of each case list all other calls. */
//= passes: off
//= case: return, 1
//= run: return 1
//= events: open=1 pread=1
//= case: return, 1000
//= run: return 1000
//= events: open=1 pread=1000
//= case: return, 1000000
//= run: return 1000000
//= events: open=1 pread=1000000
//= formats: auto
//= case: exit, 1
//= run: exit 1
//= events: open=1 pread=1
//= case: exit, 1000
//= run: exit 1000
//= events: open=1 pread=1000
//= case: _exit, 1
//= run: _exit 1
//= events: open=1 pread=1
//= case: _exit, 1000
//= run: _exit 1000
//= events: open=1 pread=1000
//= case: _exit, 1000000
//= run: _exit 1000000
//= events: open=1 pread=1000000
//= formats: native
//= case: _Exit, 1
//= run: _Exit 1
//= events: open=1 pread=1
//= case: _Exit, 1000
//= run: _Exit 1000
//= events: open=1 pread=1000
//= case: quick_exit, 1
//= run: quick_exit 1
//= events: open=1 pread=1
//= case: quick_exit, 1000
//= run: quick_exit 1000
//= events: open=1 pread=1000
//= case: exit_group, 1
//= run: exit_group 1
//= events: open=1 pread=1
//= endings: killed
//= case: exit_group, 1000
//= run: exit_group 1000
//= events: open=1 pread=1000
//= endings: killed
//= case: exit_group, 1000000
//= run: exit_group 1000000
//= events: open=1 pread=1000000
//= endings: killed
//= formats: native
//= case: abort, 1
//= run: abort 1
//= events: open=1 pread=1
//= exit: signal 6
//= case: abort, 1000
//= run: abort 1000
//= events: open=1 pread=1000
//= exit: signal 6
//= case: abort, 1000000
//= run: abort 1000000
//= events: open=1 pread=1000000
//= exit: signal 6
//= formats: native
//= case: SIGSEGV, 1
//= run: SIGSEGV 1
//= events: open=1 pread=1
//= exit: signal 11
//= case: SIGSEGV, 1000
//= run: SIGSEGV 1000
//= events: open=1 pread=1000
//= exit: signal 11
//= case: SIGKILL, 1
//= run: SIGKILL 1
//= events: open=1 pread=1
//= exit: signal 9
//= case: SIGKILL, 1000
//= run: SIGKILL 1000
//= events: open=1 pread=1000
//= exit: signal 9
//= case: SIGKILL, 1000000
//= run: SIGKILL 1000000
//= events: open=1 pread=1000000
//= exit: signal 9
//= formats: auto
//= case: SIGTERM, 1
//= run: SIGTERM 1
//= events: open=1 pread=1
//= exit: signal 15
//= case: SIGTERM, 1000
//= run: SIGTERM 1000
//= events: open=1 pread=1000
//= exit: signal 15
//= case: fork and exit, 1
//= run: fork+exit 1
//= events: open=1 pread=2 fork=1
//= processes: 2
//= case: fork and exit, 1000
//= run: fork+exit 1000
//= events: open=1 pread=2000 fork=1
//= processes: 2
//= case: fork and exit, 1000000
//= run: fork+exit 500000
//= events: open=1 pread=1000000 fork=1
//= processes: 2
//= formats: native
//= case: fork and _exit, 1
//= run: fork+_exit 1
//= events: open=1 pread=2 fork=1
//= processes: 2
//= case: fork and _exit, 1000
//= run: fork+_exit 1000
//= events: open=1 pread=2000 fork=1
//= processes: 2
//= case: exec, 1
//= run: exec 1
//= events: open=2 pread=2 exec=1
//= processes: 2
//= endings: exec, exit 42
//= case: exec, 1000
//= run: exec 1000
//= events: open=2 pread=1001 exec=1
//= processes: 2
//= endings: exec, exit 42
//= case: exec, 1000000
//= run: exec 1000000
//= events: open=2 pread=1000001 exec=1
//= processes: 2
//= endings: exec, exit 42
//= formats: native
//= case: exit, 1000000
//= run: exit 1000000
//= events: open=1 pread=1000000
//= formats: native
//= case: _Exit, 1000000
//= run: _Exit 1000000
//= events: open=1 pread=1000000
//= formats: native
//= case: quick_exit, 1000000
//= run: quick_exit 1000000
//= events: open=1 pread=1000000
//= formats: native
//= case: SIGSEGV, 1000000
//= run: SIGSEGV 1000000
//= events: open=1 pread=1000000
//= exit: signal 11
//= formats: native
//= case: SIGTERM, 1000000
//= run: SIGTERM 1000000
//= events: open=1 pread=1000000
//= exit: signal 15
//= formats: native
//= case: fork and _exit, 1000000
//= run: fork+_exit 500000
//= events: open=1 pread=1000000 fork=1
//= processes: 2
//= formats: native
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "expect.h"

static int fd;

static void reads(long count) {
    char bytes[64];
    for (long i = 0; i < count; i++) EXPECT(pread(fd, bytes, sizeof bytes, i % 4096) == sizeof bytes);
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    const char *ending = argv[1];
    long count = atol(argv[2]);
    fd = open(argv[0], O_RDONLY);
    EXPECT(fd >= 0);
    reads(count);
    if (!strcmp(ending, "return")) return PASSED;
    if (!strcmp(ending, "exit")) exit(PASSED);
    if (!strcmp(ending, "_exit")) _exit(PASSED);
    if (!strcmp(ending, "_Exit")) _Exit(PASSED);
    if (!strcmp(ending, "quick_exit")) quick_exit(PASSED);
    if (!strcmp(ending, "exit_group")) syscall(SYS_exit_group, PASSED);
    if (!strcmp(ending, "abort")) abort();
    if (!strcmp(ending, "SIGSEGV")) *(volatile int *)8 = 1;
    if (!strcmp(ending, "SIGKILL")) kill(getpid(), SIGKILL);
    if (!strcmp(ending, "SIGTERM")) kill(getpid(), SIGTERM);
    if (!strcmp(ending, "exec")) execl(argv[0], argv[0], "return", "1", (char *)NULL);
    if (!strncmp(ending, "fork+", 5)) {
        pid_t child = fork();
        if (child == 0) {
            reads(count);
            if (!strcmp(ending, "fork+exit")) exit(PASSED);
            _exit(PASSED);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
        return PASSED;
    }
    return 1;
}
