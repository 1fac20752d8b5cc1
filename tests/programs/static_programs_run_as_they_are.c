/* A static program has no loader and no library: it is not traced, and runs unchanged. */
//= compile: -static
//= processes: 0
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    char byte;
    int fd = open(argv[0], O_RDONLY);
    EXPECT(pread(fd, &byte, 1, 0) == 1);
    return PASSED;
}
