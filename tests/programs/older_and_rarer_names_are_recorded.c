/* Functions that only old programs call, or programs for a newer C library. A function that the C library lacks
 * fails like a missing system call. */
//= events: mknod=1 mknodat=1 opendir=1 readdir=6 closedir=1 ioctl=2 open=1 close=1
//= results ioctl: 0 -25
//= passes: off filtered
#define _LARGEFILE64_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

__asm__(".symver old_mknod, __xmknod@GLIBC_2.2.5");
__asm__(".symver old_mknodat, __xmknodat@GLIBC_2.4");
int old_mknod(int, const char *, mode_t, dev_t *), old_mknodat(int, int, const char *, mode_t, dev_t *);

int main(void) {
    dev_t none = 0;
    int count;
    struct dirent entry, *found;
    struct dirent64 entry64, *found64;
    EXPECT(old_mknod(0, "a", S_IFREG | 0600, &none) == 0);
    EXPECT(old_mknodat(0, AT_FDCWD, "b", S_IFREG | 0600, &none) == 0);
    DIR *folder = opendir(".");
    for (int i = 0; i < 3; i++) {
        EXPECT(readdir_r(folder, &entry, &found) == 0);
        EXPECT(readdir64_r(folder, &entry64, &found64) == 0);
    }
    EXPECT(closedir(folder) == 0);
    int fd = open("a", O_RDWR);
    EXPECT(ioctl(fd, FIONREAD, &count) == 0 && count == 0);
    EXPECT(ioctl(fd, TCGETS, NULL) == -1 && errno == ENOTTY);
    EXPECT(close(fd) == 0);
    return PASSED;
}
