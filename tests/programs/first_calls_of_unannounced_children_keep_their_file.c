/* A child that was forked without the C library's fork inherits everything its parent knows about files. Its first
 * call, of any kind, names the file by the child's own descriptors. */
//= on data: open=5 write=1 read=4 pread=4 access=4 stat=4 fopen=5 fread=4 fclose=1 close=1
//= processes: 29
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "expect.h"

static char content[65536];
static int fd;
static FILE *stream;

static pid_t by_fork(void) { return syscall(SYS_fork); }
static pid_t by_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static pid_t by_clone3(void) {
    struct clone_args arguments = {.exit_signal = SIGCHLD};
    return syscall(SYS_clone3, &arguments, sizeof arguments);
}
static pid_t without_handlers(void) {
    pid_t (*bare)(void) = dlsym(RTLD_DEFAULT, "_Fork");
    return bare ? bare() : by_fork();
}

static void first(int call) {
    char bytes[4];
    struct stat facts;
    switch (call) {
    case 0: EXPECT(open("data", O_RDONLY) >= 0); break;
    case 1: EXPECT(stat("data", &facts) == 0); break;
    case 2: EXPECT(fopen("data", "r") != NULL); break;
    case 3: EXPECT(read(fd, bytes, 4) >= 0); break;
    case 4: EXPECT(pread(fd, bytes, 4, 0) == 4); break;
    case 5: EXPECT(access("data", R_OK) == 0); break;
    case 6: EXPECT(fread(bytes, 1, 4, stream) == 4); break;
    }
}

int main(void) {
    pid_t (*ways[])(void) = {by_fork, by_clone, by_clone3, without_handlers};
    fd = open("data", O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0 && write(fd, content, sizeof content) == sizeof content);
    stream = fopen("data", "r");
    for (int way = 0; way < 4; way++) {
        for (int call = 0; call < 7; call++) {
            pid_t child = ways[way]();
            if (child == 0) {
                first(call);
                _exit(PASSED);
            }
            int status;
            EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
        }
    }
    fclose(stream);
    close(fd);
    return PASSED;
}
