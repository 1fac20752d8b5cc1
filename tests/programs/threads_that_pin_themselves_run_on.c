/* A program that pins its threads to CPUs gets the results of the C library, and these calls are not events. */
//= on data: open=1 write=1 close=1
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include "expect.h"

int main(void) {
    cpu_set_t all, none, one;
    int fd = open("data", O_CREAT | O_WRONLY, 0600), first = 0;
    EXPECT(fd >= 0 && write(fd, "x", 1) == 1);
    EXPECT(sched_getaffinity(0, sizeof all, &all) == 0);
    while (!CPU_ISSET(first, &all)) first++;
    CPU_ZERO(&none);
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    errno = 0;
    EXPECT(sched_setaffinity(0, sizeof none, &none) == -1 && errno == EINVAL);
    EXPECT(pthread_setaffinity_np(pthread_self(), sizeof none, &none) == EINVAL);
    errno = 7;
    for (int i = 0; i < 100; i++) {
        EXPECT(sched_setaffinity(0, sizeof one, &one) == 0);
        EXPECT(pthread_setaffinity_np(pthread_self(), sizeof all, &all) == 0);
    }
    EXPECT(errno == 7 && close(fd) == 0);
    return PASSED;
}
