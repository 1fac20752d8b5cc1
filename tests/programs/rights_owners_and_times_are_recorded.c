//= events: open=1 close=1 chmod=2 fchmod=1 fchmodat=1 chown=1 lchown=1 fchown=1 fchownat=1 utime=1 utimes=1 lutimes=1 futimes=1 utimensat=2 futimens=1
//= on data: open=1 close=1 chmod=2 fchmod=1 fchmodat=1 chown=1 lchown=1 fchown=1 fchownat=1 utime=1 utimes=1 lutimes=1 futimes=1 utimensat=2 futimens=1
//= passes: off filtered
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <utime.h>
#include "expect.h"

int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    EXPECT(chmod("data", 0640) == 0 && lchmod("data", 0640) == 0 && fchmod(fd, 0600) == 0 && fchmodat(AT_FDCWD, "data", 0600, 0) == 0);
    EXPECT(chown("data", -1, -1) == 0 && lchown("data", -1, -1) == 0 && fchown(fd, -1, -1) == 0);
    EXPECT(fchownat(AT_FDCWD, "data", -1, -1, 0) == 0);
    EXPECT(utime("data", NULL) == 0 && utimes("data", NULL) == 0 && lutimes("data", NULL) == 0);
    EXPECT(futimes(fd, NULL) == 0 && futimesat(AT_FDCWD, "data", NULL) == 0);
    EXPECT(utimensat(AT_FDCWD, "data", NULL, 0) == 0 && futimens(fd, NULL) == 0);
    EXPECT(close(fd) == 0);
    return PASSED;
}
