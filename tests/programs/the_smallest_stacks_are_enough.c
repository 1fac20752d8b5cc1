/* The stack of the first thread is just large enough for the loader, that of a second thread is the smallest allowed
 * one, and that of a handler is little more than the kernel needs: if the program runs untraced, it runs traced.
 * Symbols are bound at the start, so that the loader uses no stack later. */
//= compile: -Wl,-z,now
//= among: open=3 read=3 posix_spawn=1
//= run: first
//= case: recorded
//= case: patched
//= env: DLIO_TRACE_INLINE=1
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "expect.h"

extern char **environ;
static const char *self;

static void opens(void) {
    char byte;
    int fd = open(self, O_RDONLY);
    EXPECT(fd >= 0 && read(fd, &byte, 1) == 1);
    close(fd);
}

static void *works(void *unused) {
    pid_t child;
    int status;
    opens();
    EXPECT(posix_spawn(&child, "/bin/true", NULL, NULL, (char *[]){"true", NULL}, environ) == 0);
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    return unused;
}

static void handles(int signal) { opens(); }

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) {
        struct rlimit small = {20 << 10, 20 << 10};
        EXPECT(setrlimit(RLIMIT_STACK, &small) == 0);
        /* The environment is on that stack, so it contains only the variables for the loader and the tracer. */
        char *few[64];
        int kept = 0;
        for (char **one = environ; *one && kept < 63; one++)
            if (!strncmp(*one, "LD_", 3) || !strncmp(*one, "DLIO_TRACE", 10)) few[kept++] = *one;
        few[kept] = NULL;
        execve(self, (char *[]){argv[0], NULL}, few);
        EXPECT(!"exec");
    }
    pthread_t thread;
    pthread_attr_t small;
    /* Bytes for the kernel's own frame, and slightly more than an untraced call that opens a file needs. */
    size_t room = getauxval(AT_MINSIGSTKSZ) + 1536;
    char *memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 7, 1 << 16);
    stack_t other = {.ss_sp = memory + 32768, .ss_size = room};
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_ONSTACK};
    EXPECT(sigaltstack(&other, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    for (int i = 0; i < 32768; i++) EXPECT(memory[i] == 7);
    opens();
    pthread_attr_init(&small);
    EXPECT(pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0);
    EXPECT(pthread_create(&thread, &small, works, NULL) == 0);
    pthread_join(thread, NULL);
    return PASSED;
}
