/* Eight threads call exit, _exit and quick_exit at the same time: there is one trace and no hang. If one of them
 * ends the process during the exit of another (the C library has no lock before 2.41), the ring contains the missing
 * part, and half of a converted file may remain next to the complete native one. */
//= among: open=1
//= endings: *
//= leftovers: yes
//= lost: *
//= may-say: events are lost
//= case: exit and _exit
//= run: 1
//= case: all kinds
//= run: 2
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int fd, kinds;
static pthread_barrier_t start;

static void *ends(void *number) {
    char byte;
    for (int i = 0; i < 5000; i++) pread(fd, &byte, 1, 0);
    pthread_barrier_wait(&start);
    if (kinds == 2 && (long)number % 3 == 2) quick_exit(PASSED);
    if ((long)number % 2) _exit(PASSED);
    exit(PASSED);
}

int main(int argc, char **argv) {
    pthread_t thread;
    kinds = atoi(argv[1]);
    fd = open(argv[0], O_RDONLY);
    pthread_barrier_init(&start, NULL, 8);
    for (long i = 0; i < 8; i++) pthread_create(&thread, NULL, ends, (void *)i);
    for (;;) pause();
}
