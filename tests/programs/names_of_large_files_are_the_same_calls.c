/* Calls under the names that programs for 32-bit systems were built with are recorded as the ordinary calls. */
//= events: open=1 pread=1 pwrite=1 preadv=1 pwritev=1 preadv2=1 pwritev2=1 lseek=1 ftruncate=1 truncate=1 fallocate=1 posix_fallocate=1 posix_fadvise=1 sendfile=1 stat=1 lstat=1 fstat=1 fstatat=1 statfs=1 fstatfs=1 statvfs=1 fstatvfs=1 lockf=1 fcntl=1 mmap=1 munmap=1 fopen=1 freopen=1 fseek=1 ftell=1 fgetpos=1 fsetpos=1 fclose=2 tmpfile=1 close=1
//= positions pread: 5000000000
//= bytes: pread=1 pwrite=1
//= passes: off filtered
#define _LARGEFILE64_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include "expect.h"

int main(void) {
    char byte = 'x';
    struct iovec list = {&byte, 1};
    struct stat64 found;
    struct statfs64 system;
    struct statvfs64 volume;
    fpos64_t place;
    int fd = open64("data", O_CREAT | O_RDWR, 0600);
    EXPECT(pwrite64(fd, &byte, 1, 5000000000) == 1);
    EXPECT(pread64(fd, &byte, 1, 5000000000) == 1);
    EXPECT(preadv64(fd, &list, 1, 0) == 1 && pwritev64(fd, &list, 1, 0) == 1);
    EXPECT(preadv64v2(fd, &list, 1, 0, 0) == 1 && pwritev64v2(fd, &list, 1, 0, 0) == 1);
    EXPECT(lseek64(fd, 0, SEEK_SET) == 0);
    EXPECT(ftruncate64(fd, 8192) == 0 && truncate64("data", 8192) == 0);
    EXPECT(fallocate64(fd, 0, 0, 10) == 0 || errno == EOPNOTSUPP);
    EXPECT(posix_fallocate64(fd, 0, 10) == 0);
    EXPECT(posix_fadvise64(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0);
    int out = syscall(SYS_open, "out", O_CREAT | O_RDWR, 0600);
    EXPECT(sendfile64(out, fd, NULL, 10) == 10);
    EXPECT(stat64("data", &found) == 0 && lstat64("data", &found) == 0 && fstat64(fd, &found) == 0);
    EXPECT(fstatat64(AT_FDCWD, "data", &found, 0) == 0);
    EXPECT(statfs64("data", &system) == 0 && fstatfs64(fd, &system) == 0);
    EXPECT(statvfs64("data", &volume) == 0 && fstatvfs64(fd, &volume) == 0);
    EXPECT(lockf64(fd, F_TEST, 1) == 0 && fcntl64(fd, F_GETFL) >= 0);
    void *mapped = mmap64(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    EXPECT(mapped != MAP_FAILED && munmap(mapped, 4096) == 0);
    FILE *stream = fopen64("data", "r");
    stream = freopen64("data", "r+", stream);
    EXPECT(fseeko64(stream, 3, SEEK_SET) == 0 && ftello64(stream) == 3);
    EXPECT(fgetpos64(stream, &place) == 0 && fsetpos64(stream, &place) == 0);
    EXPECT(fclose(stream) == 0);
    stream = tmpfile64();
    EXPECT(stream && fclose(stream) == 0);
    EXPECT(close(fd) == 0);
    return PASSED;
}
