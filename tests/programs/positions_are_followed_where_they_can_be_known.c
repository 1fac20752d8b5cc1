/* Duplicated descriptors share a position, seeking sets it, appending and inheriting make it unknown. */
//= positions read: 0 10 20 30 5 15 ? 0 4
//= positions write: 0 3 ? ? 0 ?
//= positions pwritev2: ? ?
//= among: fork=1
//= processes: 1
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[64];
    int fd = open(argv[0], O_RDONLY);
    int copy = dup(fd), third = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    read(fd, bytes, 10);
    read(copy, bytes, 10);
    read(third, bytes, 10);
    close(fd);
    read(copy, bytes, 10);
    lseek(third, 5, SEEK_SET);
    read(copy, bytes, 10);
    read(third, bytes, 10);
    pid_t child = fork();
    if (child == 0) {
        syscall(SYS_read, copy, bytes, 10);
        syscall(SYS_exit_group, 0);
    }
    waitpid(child, NULL, 0);
    read(copy, bytes, 10); /* where the child's read left it: unknown */
    lseek(copy, 0, SEEK_SET);
    read(copy, bytes, 4);
    read(third, bytes, 4);

    int out = open("data", O_CREAT | O_WRONLY, 0600);
    write(out, "abc", 3);
    write(out, "abc", 3);
    int end = open("data", O_WRONLY | O_APPEND);
    write(end, "abc", 3);
    fcntl(out, F_SETFL, O_APPEND);
    write(out, "abc", 3);
    fcntl(out, F_SETFL, 0);
    lseek(out, 0, SEEK_SET);
    write(out, "abc", 3);
    struct iovec three = {"abc", 3};
    pwritev2(out, &three, 1, 0, RWF_APPEND);
    pwritev2(out, &three, 1, -1, RWF_APPEND);
    write(out, "abc", 3);
    return PASSED;
}
