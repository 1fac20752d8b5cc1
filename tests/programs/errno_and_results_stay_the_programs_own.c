/* Each failing call sets its own errno, and each successful call keeps it. The tracer's own work, flushes included,
 * does not change errno. */
//= among: open=2 read=100001 close=2 lseek=1 stat=1 fopen=1
//= results close: -9 0
//= results stat: -2
//= results lseek: -29
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "expect.h"

int main(int argc, char **argv) {
    int ends[2];
    char bytes[16];
    struct stat found;
    errno = 0;
    EXPECT(open("/no/such/file", O_RDONLY) == -1 && errno == ENOENT);
    EXPECT(read(-1, bytes, 1) == -1 && errno == EBADF);
    errno = 0;
    EXPECT(close(12345) == -1 && errno == EBADF);
    EXPECT(stat("/no/such/file", &found) == -1 && errno == ENOENT);
    EXPECT(pipe(ends) == 0 && errno == ENOENT);
    EXPECT(lseek(ends[0], 0, SEEK_SET) == -1 && errno == ESPIPE);
    EXPECT(fopen("/no/such/file", "r") == NULL && errno == ENOENT);
    errno = 77;
    int fd = open(argv[0], O_RDONLY);
    EXPECT(errno == 77);
    for (int i = 0; i < 100000; i++) EXPECT(read(fd, bytes, 1) <= 1 && errno == 77);
    FILE *memory = fmemopen(bytes, 16, "w");
    fputc('x', memory);
    fclose(memory);
    EXPECT(close(fd) == 0 && errno == 77);
    return PASSED;
}
