/* The kernel returns EFAULT for an invalid pointer. A traced call must return it too, although the tracer reads the
 * same memory. */
//= processes: 2
//= endings: exec, exit 42
//= among: open=2 stat=1 readv=2 writev=1
//= results readv: -14 -14
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include "expect.h"

int main(int argc, char **argv) {
    struct stat found;
    char *nowhere = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = open(argv[0], O_RDONLY);
    EXPECT(open(nowhere, O_RDONLY) == -1 && errno == EFAULT);
    EXPECT(stat((char *)8, &found) == -1 && errno == EFAULT);
    EXPECT(readv(fd, (void *)nowhere, 1) == -1 && errno == EFAULT);
    EXPECT(readv(fd, (void *)nowhere, 3) == -1 && errno == EFAULT);
    EXPECT(writev(1, (void *)8, 1) == -1 && errno == EFAULT);
    EXPECT(unlink(nowhere) == -1 && errno == EFAULT);
    EXPECT(rename(argv[0], nowhere) == -1 && errno == EFAULT);
    EXPECT(access(argv[0], R_OK) == 0);
    char *arguments[] = {argv[0], NULL}, *variables[] = {"A=B", nowhere, NULL};
    pid_t child;
    EXPECT(execve(nowhere, arguments, NULL) == -1 && errno == EFAULT);
    EXPECT(posix_spawn(&child, nowhere, NULL, NULL, arguments, variables) == EFAULT);
    EXPECT(execve(argv[0], arguments, (char **)nowhere) == -1 && errno == EFAULT);
    EXPECT(execve(argv[0], arguments, variables) == -1 && errno == EFAULT);
    EXPECT(access(argv[0], R_OK) == 0);
    return PASSED;
}
