/* A program that has used all the memory it may use continues. Before its first event, there is no memory for a
 * ring, and the tracer prints a message. After it, there is no memory to convert the trace, which keeps its native
 * format. */
//= formats: native auto perfetto chrome
//= may-say: events are lost
//= may-say: events were lost
//= leftovers: yes
//= case: before
//= run: before
//= processes: *
//= endings: *
//= lost: *
//= case: after
//= run: after
//= among: pwrite=10000 open=1
//= case: few data pages
//= run: data
//= processes: *
//= endings: *
//= lost: *
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "expect.h"

static void take_all(int resource, rlim_t limit) {
    struct rlimit few = {limit, RLIM_INFINITY};
    EXPECT(setrlimit(resource, &few) == 0);
    for (size_t size = 64 << 20; size >= 64; size /= 2)
        while (malloc(size) != NULL) {}
}

int main(int argc, char **argv) {
    (void)argc;
    int fd = -1;
    char block[64] = {0};
    if (strcmp(argv[1], "after") == 0) {
        fd = open("data", O_RDWR | O_CREAT, 0600);
        EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    }
    take_all(strcmp(argv[1], "data") == 0 ? RLIMIT_DATA : RLIMIT_AS, 200 << 20);
    if (fd < 0) {
        fd = open("data", O_RDWR | O_CREAT, 0600);
        EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    }
    for (int i = 1; i < 10000; i++) EXPECT(pwrite(fd, block, sizeof block, 0) == sizeof block);
    close(fd);
    return 42;
}
