/* Both old and new names of stat: which of them a program uses depends on the glibc it was built for. */
//= events: stat=3 lstat=3 fstat=3 fstatat=3 statx=1 statfs=1 fstatfs=1 statvfs=1 fstatvfs=1 access=3 faccessat=1 open=1 close=1 getxattr=3 setxattr=3 listxattr=3 removexattr=3 readlink=1 readlinkat=1 symlink=1 symlinkat=1
//= on data: stat=3 lstat=3 fstat=3 fstatat=2 statx=1 statfs=1 fstatfs=1 statvfs=1 fstatvfs=1 access=3 faccessat=1 open=1 close=1 getxattr=3 setxattr=3 listxattr=3 removexattr=3
//= passes: off filtered
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include "expect.h"

__asm__(".symver old_stat, __xstat@GLIBC_2.2.5");
__asm__(".symver old_stat64, __xstat64@GLIBC_2.2.5");
__asm__(".symver old_lstat, __lxstat@GLIBC_2.2.5");
__asm__(".symver old_lstat64, __lxstat64@GLIBC_2.2.5");
__asm__(".symver old_fstat, __fxstat@GLIBC_2.2.5");
__asm__(".symver old_fstat64, __fxstat64@GLIBC_2.2.5");
__asm__(".symver old_fstatat, __fxstatat@GLIBC_2.4");
__asm__(".symver old_fstatat64, __fxstatat64@GLIBC_2.4");
int old_stat(int, const char *, struct stat *), old_stat64(int, const char *, struct stat *);
int old_lstat(int, const char *, struct stat *), old_lstat64(int, const char *, struct stat *);
int old_fstat(int, int, struct stat *), old_fstat64(int, int, struct stat *);
int old_fstatat(int, int, const char *, struct stat *, int), old_fstatat64(int, int, const char *, struct stat *, int);

int main(void) {
    struct stat s;
    struct statx x;
    struct statfs f;
    struct statvfs v;
    char bytes[64];
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    EXPECT(stat("data", &s) == 0 && lstat("data", &s) == 0 && fstat(fd, &s) == 0);
    EXPECT(fstatat(AT_FDCWD, "none", &s, 0) == -1);
    EXPECT(old_stat(1, "data", &s) == 0 && old_stat64(1, "data", &s) == 0 && S_ISREG(s.st_mode));
    EXPECT(old_lstat(1, "data", &s) == 0 && old_lstat64(1, "data", &s) == 0);
    EXPECT(old_fstat(1, fd, &s) == 0 && old_fstat64(1, fd, &s) == 0);
    EXPECT(old_fstatat(1, AT_FDCWD, "data", &s, 0) == 0 && old_fstatat64(1, AT_FDCWD, "data", &s, 0) == 0);
    EXPECT(statx(AT_FDCWD, "data", 0, STATX_SIZE, &x) == 0);
    EXPECT(statfs("data", &f) == 0 && fstatfs(fd, &f) == 0 && statvfs("data", &v) == 0 && fstatvfs(fd, &v) == 0);
    EXPECT(access("data", R_OK) == 0 && eaccess("data", R_OK) == 0 && euidaccess("data", R_OK) == 0);
    EXPECT(faccessat(AT_FDCWD, "data", R_OK, 0) == 0);
    setxattr("data", "user.a", "1", 1, 0);
    lsetxattr("data", "user.a", "1", 1, 0);
    fsetxattr(fd, "user.a", "1", 1, 0);
    getxattr("data", "user.a", bytes, 64);
    lgetxattr("data", "user.a", bytes, 64);
    fgetxattr(fd, "user.a", bytes, 64);
    listxattr("data", bytes, 64);
    llistxattr("data", bytes, 64);
    flistxattr(fd, bytes, 64);
    removexattr("data", "user.a");
    lremovexattr("data", "user.a");
    fremovexattr(fd, "user.a");
    EXPECT(symlink("data", "one") == 0 && symlinkat("data", AT_FDCWD, "two") == 0);
    EXPECT(readlink("one", bytes, 64) == 4 && readlinkat(AT_FDCWD, "two", bytes, 64) == 4);
    EXPECT(close(fd) == 0);
    return PASSED;
}
