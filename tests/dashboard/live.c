/* A training that a dashboard watches: steps with spans, reads, writes and calls that fail, until standard input ends.
 * Usage: live FOLDER */
#include "dliotrace.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void rest(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int main(int count, char **words) {
    static char bytes[40000];
    struct pollfd input = {0, POLLIN, 0};
    if (count != 2 || chdir(words[1]) != 0)
        return 1;
    int fd = open("data", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != sizeof bytes)
        return 1;
    for (int step = 0; poll(&input, 1, 0) == 0; step++) {
        dlio_span fetch = dlio_begin("fetch", "data");
        dlio_set_steps(&fetch, 0, step);
        for (int call = 0; call < 10; call++)
            if (pread(fd, bytes, sizeof bytes, 0) != sizeof bytes)
                return 1;
        rest(6);
        dlio_end(&fetch);
        dlio_span compute = dlio_begin("compute", "compute");
        dlio_set_steps(&compute, 0, step);
        rest(12);
        dlio_end(&compute);
        dlio_span save = dlio_begin("save", "checkpoint");
        dlio_set_steps(&save, 0, step);
        if (pwrite(fd, bytes, 10000, 0) != 10000 || open("missing", O_RDONLY) >= 0)
            return 1;
        rest(2);
        dlio_end(&save);
    }
    return 0;
}
