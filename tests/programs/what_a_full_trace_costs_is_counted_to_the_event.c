/* A trace that may not grow any more, here for a limit of file sizes, as on a disk that is full: the last events are given
 * up for the names of files and for the count of what is lost, so that what is there and what is said to be missing are
 * together what was done. */
//= formats: native
//= among: open=1
//= files: 1
//= lost: >=500000
//= done: 600001
//= says: events were lost (the file size limit)
//= case: room for a few blocks
//= run: 65536
//= case: room for some dozens
//= run: 262144
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "expect.h"

int main(int argc, char **argv) {
    (void)argc;
    struct rlimit small = {atol(argv[1]), atol(argv[1])};
    EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
    int fd = open("/etc/passwd", O_RDONLY);
    char block[64];
    unsigned random = 1;
    for (int i = 0; i < 600000; i++) {
        random = random * 1664525 + 1013904223;
        EXPECT(pread(fd, block, (random >> 8) % 64, (random >> 16) % 64) >= 0);
    }
    return 42;
}
