/* daemon() forks, and its parent ends inside the C library where nobody is asked: the trace of both is whole. */
//= among: pread=2000 open=1
//= exit: 0
//= processes: 2
//= endings: exit 0, exit 42
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    EXPECT(daemon(1, 0) == 0);
    for (int i = 0; i < 1000; i++) EXPECT(pread(fd, &byte, 1, 0) == 1);
    return PASSED;
}
