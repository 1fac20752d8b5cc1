/* A child that clone created on its parent's memory exits or executes another program; the parent continues and is
 * recorded to its own end. */
//= among: pread=1000
//= on after: open=1 write=1 close=1
//= case: ends beside its parent
//= run: ends beside
//= case: ends while its parent waits
//= run: ends before
//= case: ends before its parent has done anything
//= run: ends first
//= case: becomes another program
//= run: execs before
//= processes: 2
//= endings: exit 42, exit 7
//= case: becomes another program beside its parent
//= run: execs beside
//= processes: 2
//= endings: exit 42, exit 7
//= case: comes back
//= run: returns beside
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "expect.h"

static int ends(void *unused) { _exit(7); }
static int returns(void *unused) { return 7; }
static int execs(void *unused) {
    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
    return 1;
}

int main(int argc, char **argv) {
    enum { STACK = 1 << 16 };
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte;
    int (*does)(void *) = !strcmp(argv[1], "ends") ? ends : !strcmp(argv[1], "execs") ? execs : returns;
    int flags = CLONE_VM | SIGCHLD | (strcmp(argv[2], "before") ? 0 : CLONE_VFORK), status;
    int fd = -1;
    if (strcmp(argv[2], "first")) EXPECT((fd = open(argv[0], O_RDONLY)) >= 0);
    pid_t child = clone(does, stack + STACK, flags, NULL);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    if (fd < 0) EXPECT((fd = open(argv[0], O_RDONLY)) >= 0);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    int after = open("after", O_CREAT | O_WRONLY, 0600);
    EXPECT(after >= 0 && write(after, "after", 5) == 5 && close(after) == 0);
    return PASSED;
}
