/* A program that defines functions with hooked names calls its own. Those of the C library remain available, and are
 * traced if they are reached through the hooks. */
//= events: open=1 pread=1 close=1
#include <fcntl.h>
#include "expect.h"

int calls;

ssize_t read(int fd, void *into, size_t size) {
    calls++;
    return 7;
}

int creat(const char *path, mode_t mode) { return 1234; }

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY);
    EXPECT(read(fd, bytes, 16) == 7 && calls == 1);
    EXPECT(creat("data", 0600) == 1234 && access != NULL);
    EXPECT(pread(fd, bytes, 16, 0) == 16);
    close(fd);
    return PASSED;
}
