/* Reads a file in steps, with a span around each: `dlio trace -- ./spans FILE`. */
#include "dliotrace.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char sample[65536];
    int fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);
    if (fd < 0) {
        perror("open");
        return 1;
    }
    for (int epoch = 0; epoch < 2; epoch++) {
        dlio_span whole = dlio_begin("epoch", "pipeline");
        dlio_set_steps(&whole, epoch, INT32_MIN);
        for (int step = 0; step < 4; step++) {
            static dlio_site site = DLIO_SITE("fetch", "data");
            dlio_span fetch = dlio_begin_at(&site);
            dlio_set_steps(&fetch, epoch, step);
            dlio_set_int(&fetch, "bytes", pread(fd, sample, sizeof sample, step * (off_t)sizeof sample));
            dlio_end(&fetch);
            dlio_counter("step", step);
        }
        dlio_end(&whole);
        dlio_instant("epoch done", "pipeline");
    }
    close(fd);
    return 0;
}
