//= events: open=1 pread=20 close=1
//= processes: 1
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 20; i++) {
        EXPECT(pread(fd, bytes, 16, 0) == 16);
        EXPECT(execl("/no/such/program", "x", (char *)NULL) == -1 && errno == ENOENT);
        EXPECT(execlp("no-such-program", "x", (char *)NULL) == -1 && errno == ENOENT);
        EXPECT(execl("/etc/passwd", "x", (char *)NULL) == -1 && errno == EACCES);
    }
    close(fd);
    return PASSED;
}
