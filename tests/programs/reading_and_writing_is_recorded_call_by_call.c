//= events: open=2 close=2 truncate=1 read=3 write=2 pread=1 pwrite=1 lseek=1 readv=1 writev=1 preadv=1 pwritev=1 preadv2=2 pwritev2=2
//= bytes: read=15 write=20 pread=5 pwrite=10 readv=8 writev=6 preadv=8 pwritev=6 preadv2=8 pwritev2=6
//= positions write: 0 10
//= positions read: 0 10 15
//= positions pread: 3
//= positions pwrite: 40
//= positions readv: 2
//= positions preadv2: 1 10
//= positions writev: 20
//= positions pwritev2: 50 26
//= results read: 10 5 0
//= passes: off filtered
#include <fcntl.h>
#include <sys/uio.h>
#include "expect.h"

int main(void) {
    char bytes[64] = "0123456789";
    struct iovec two[2] = {{bytes, 4}, {bytes + 4, 4}};
    struct iovec out[2] = {{bytes, 3}, {bytes + 3, 3}};
    int fd = open("data", O_CREAT | O_WRONLY, 0640);
    EXPECT(fd >= 0);
    EXPECT(write(fd, bytes, 10) == 10);
    EXPECT(write(fd, bytes, 10) == 10);
    EXPECT(pwrite(fd, bytes, 10, 40) == 10);
    EXPECT(writev(fd, out, 2) == 6);
    EXPECT(pwritev(fd, out, 2, 50) == 6);
    EXPECT(pwritev2(fd, out, 1, 50, 0) == 3);
    EXPECT(pwritev2(fd, out, 1, -1, 0) == 3);
    EXPECT(close(fd) == 0);

    EXPECT(truncate("data", 15) == 0);
    fd = open("data", O_RDONLY);
    EXPECT(read(fd, bytes, 10) == 10);
    EXPECT(read(fd, bytes, 10) == 5);
    EXPECT(read(fd, bytes, 10) == 0);
    EXPECT(pread(fd, bytes, 5, 3) == 5);
    EXPECT(lseek(fd, 2, SEEK_SET) == 2);
    EXPECT(readv(fd, two, 2) == 8);
    EXPECT(preadv(fd, two, 2, 0) == 8);
    EXPECT(preadv2(fd, two, 1, 1, 0) == 4);
    EXPECT(preadv2(fd, two, 1, -1, 0) == 4);
    EXPECT(close(fd) == 0);
    return PASSED;
}
