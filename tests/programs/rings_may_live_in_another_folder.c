/* DLIO_TRACE_SPOOL: the ring is in that directory while the program runs, and is removed when the program exits
 * normally. */
//= env: DLIO_TRACE_SPOOL={work}/spool
//= events: open=1 pread=5000
#include <dirent.h>
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 5000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    return PASSED;
}
