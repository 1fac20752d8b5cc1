//= events: open=1 close=1 fsync=1 fdatasync=1 sync_file_range=1 syncfs=1 sync=1 truncate=1 ftruncate=1 fallocate=1 posix_fallocate=1 posix_fadvise=2 readahead=1 flock=2 lockf=1 fcntl=2 fcntl_setlkw=1
//= positions ftruncate: 100
//= positions truncate: 50
//= results posix_fadvise: 0 -29
//= passes: off filtered
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include "expect.h"

int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600), ends[2];
    syscall(SYS_pipe, ends);
    EXPECT(ftruncate(fd, 100) == 0 && truncate("data", 50) == 0);
    EXPECT(fallocate(fd, 0, 0, 10) == 0 || errno == EOPNOTSUPP);
    EXPECT(posix_fallocate(fd, 0, 10) == 0);
    EXPECT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0 && posix_fadvise(ends[0], 0, 0, 0) == ESPIPE);
    EXPECT(readahead(fd, 0, 10) == 0);
    EXPECT(fsync(fd) == 0 && fdatasync(fd) == 0 && syncfs(fd) == 0);
    EXPECT(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE) == 0);
    sync();
    EXPECT(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0 && lockf(fd, F_TEST, 0) == 0);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    EXPECT(fcntl(fd, F_SETLKW, &whole) == 0);
    EXPECT((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
    EXPECT(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0);
    EXPECT(close(fd) == 0);
    return PASSED;
}
