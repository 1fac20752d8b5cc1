/* A thread with the smallest allowed stack, and a signal handler on a small stack, open new files, fill whole blocks
 * and start programs. */
//= among: open=600 write=30000 vfork=0
//= case: thread
//= run: thread
//= case: handler
//= run: handler
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include "expect.h"

static void paths(void) {
    char path[16];
    for (int i = 0; i < 600; i++) {
        path[0] = 'a' + i % 26;
        path[1] = 'a' + i / 26;
        path[2] = 0;
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        for (int k = 0; k < 50; k++) EXPECT(write(fd, "x", 1) == 1);
        close(fd);
    }
}

static void *works(void *none) {
    paths();
    return NULL;
}

static void handles(int signal) { paths(); }

int main(int argc, char **argv) {
    if (!strcmp(argv[1], "thread")) {
        pthread_t thread;
        pthread_attr_t small;
        pthread_attr_init(&small);
        EXPECT(pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN) == 0);
        EXPECT(pthread_create(&thread, &small, works, NULL) == 0);
        pthread_join(thread, NULL);
        return PASSED;
    }
    static char memory[3][8192] __attribute__((aligned(4096)));
    stack_t small = {.ss_sp = memory[1], .ss_size = 8192};
    struct sigaction action = {.sa_handler = handles, .sa_flags = SA_ONSTACK};
    memset(memory[0], 7, 8192);
    EXPECT(sigaltstack(&small, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise(SIGUSR1);
    for (int i = 0; i < 8192; i++) EXPECT(memory[0][i] == 7);
    return PASSED;
}
