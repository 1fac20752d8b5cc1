//= events: sendfile=1 copy_file_range=1 splice=2 tee=1 vmsplice=1 close=0 read=1
//= bytes: sendfile=100 copy_file_range=100 splice=20 tee=10 vmsplice=5
//= on out: sendfile=1 copy_file_range=1 splice=1
//= positions read: ?
//= passes: off
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "expect.h"

int main(void) {
    static char bytes[4096];
    int ends[2], more[2];
    struct iovec list = {bytes, 5};
    int fd = syscall(SYS_open, "data", O_CREAT | O_RDWR, 0600), out = syscall(SYS_open, "out", O_CREAT | O_RDWR, 0600);
    syscall(SYS_pwrite64, fd, bytes, 4096, 0);
    syscall(SYS_pipe, ends);
    syscall(SYS_pipe, more);
    off_t at = 200;
    EXPECT(sendfile(out, fd, &at, 100) == 100);
    at = 200;
    EXPECT(copy_file_range(fd, &at, out, NULL, 100, 0) == 100);
    EXPECT(splice(fd, &at, ends[1], NULL, 10, 0) == 10);
    EXPECT(tee(ends[0], more[1], 10, 0) == 10);
    EXPECT(splice(ends[0], NULL, out, NULL, 10, 0) == 10);
    EXPECT(vmsplice(ends[1], &list, 1, 0) == 5);
    int again = syscall(SYS_open, "data", O_RDONLY);
    syscall(SYS_lseek, again, 100, SEEK_SET);
    EXPECT(read(again, bytes, 1) == 1);
    return PASSED;
}
