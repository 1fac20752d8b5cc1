/* After setuid the tracer must keep a descriptor open. A program that closes all descriptors, lists them, and opens
 * its own files on every number must neither notice this descriptor nor write to it. */
//= among: pread=40000 write=2
//= leftovers: yes
//= case: close
//= run: close
//= case: close_range
//= run: close_range
//= case: closefrom
//= run: closefrom
//= case: dup2
//= run: dup2
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

extern int close_range(unsigned, unsigned, int);
extern void closefrom(int);

static void reads(int fd, int count) {
    char byte;
    for (int i = 0; i < count; i++) EXPECT(pread(fd, &byte, 1, i % 100) == 1);
}

int main(int argc, char **argv) {
    struct rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
    syscall(SYS_close, syscall(SYS_open, "own", O_CREAT | O_RDWR, 0666));
    syscall(SYS_chmod, "own", 0666);
    int fd = open("/etc/passwd", O_RDONLY), own;
    reads(fd, 10000);
    if (geteuid() == 0) EXPECT(setuid(65534) == 0);
    reads(fd, 10000);
    if (!strcmp(argv[1], "close"))
        for (int i = 3; i < 1024; i++) EXPECT(close(i) == 0 || errno == EBADF);
    if (!strcmp(argv[1], "close_range")) EXPECT(close_range(3, ~0u, 0) == 0);
    if (!strcmp(argv[1], "closefrom")) closefrom(3);
    own = open("own", O_RDWR);
    if (own < 0) own = syscall(SYS_memfd_create, "own", 0); /* a directory that only this user may enter */
    EXPECT(own >= 0);
    if (!strcmp(argv[1], "dup2"))
        for (int i = own + 1; i < 1023; i++) EXPECT(dup2(own, i) == i);
    if (!strcmp(argv[1], "dup2")) close(1000);
    fd = open("/etc/passwd", O_RDONLY);
    EXPECT(fd >= 0);
    reads(fd, 20000);
    EXPECT(write(own, "mine", 4) == 4 && write(own, "mine", 4) == 4);
    struct stat found;
    EXPECT(fstat(own, &found) == 0 && found.st_size == 8);
    return PASSED;
}
