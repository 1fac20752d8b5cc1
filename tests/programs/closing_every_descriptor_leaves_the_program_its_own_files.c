/* Like careless daemons, closes every descriptor and then opens its own files, which must not contain any part of a
 * trace. */
//= case: close
//= run: close
//= among: write=3 close=1025 pread=50000
//= case: close_range
//= run: close_range
//= among: write=3 close_range=1 pread=50000
//= case: closefrom
//= run: closefrom
//= among: write=3 closefrom=1 pread=50000
//= case: dup2 over everything
//= run: dup2
//= among: write=3 dup2=1021 pread=50000
//= case: dup3 over everything
//= run: dup3
//= among: write=3 dup3=1021 pread=50000
//= case: raw close_range
//= run: raw
//= among: write=3 close_range=0 pread=50000
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

extern int close_range(unsigned, unsigned, int);
extern void closefrom(int);

static void reads(int fd, long count) {
    char bytes[16];
    for (long i = 0; i < count; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
}

int main(int argc, char **argv) {
    struct rlimit limit = {1024, 1024};
    setrlimit(RLIMIT_NOFILE, &limit);
    int fd = open(argv[0], O_RDONLY);
    reads(fd, 20000);
    const char *how = argv[1];
    if (!strcmp(how, "close"))
        for (int i = 0; i < 1024; i++) close(i);
    if (!strcmp(how, "close_range")) close_range(0, ~0u, 0);
    if (!strcmp(how, "closefrom")) closefrom(0);
    if (!strcmp(how, "dup2"))
        for (int i = 3; i < 1024; i++) EXPECT(dup2(fd, i) == i);
    if (!strcmp(how, "dup3"))
        for (int i = 3; i < 1024; i++)
            if (i != fd) EXPECT(dup3(fd, i, O_CLOEXEC) == i);
            else EXPECT(dup3(fd, i, 0) == -1 && errno == EINVAL);
    if (!strcmp(how, "raw")) syscall(SYS_close_range, 0, ~0u, 0);
    if (strncmp(how, "dup", 3)) fd = open(argv[0], O_RDONLY);
    if (!strncmp(how, "dup", 3)) syscall(SYS_close_range, 4, ~0u, 0);
    reads(fd, 30000);
    int own = open("own", O_CREAT | O_RDWR, 0600);
    EXPECT(own >= 0 && own <= 4);
    for (int i = 0; i < 3; i++) EXPECT(write(own, "mine", 4) == 4);
    struct stat found;
    EXPECT(stat("own", &found) == 0 && found.st_size == 12);
    if (!strcmp(how, "close")) close(own);
    return PASSED;
}
