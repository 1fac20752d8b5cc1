/* A trace that cannot grow, here because of a limit of file sizes, as on a full disk: the last events give way to
 * the names of files and the count of lost events. Recorded and lost events together are the calls that were made. */
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
