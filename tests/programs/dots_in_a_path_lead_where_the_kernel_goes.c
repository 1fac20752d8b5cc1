/* A file has one name, regardless of the path that the program uses. Only a path through a link is not resolved. */
//= files: 8
//= on /data/beside: open=1 openat=1 stat=1
//= on /data/below: open=1
//= on /links/to-deep/../odd: open=1
//= on /links/to-deep/../../odd: open=1
//= on /data/first: open=1
//= on /data/second: open=1
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static void make(const char *folder) { EXPECT(syscall(SYS_mkdir, folder, 0700) == 0); }

int main(void) {
    char above[2048], path[4096];
    struct stat facts;
    EXPECT(syscall(SYS_getcwd, above, sizeof above) > 0);
    make("data");
    make("data/deep");
    make("src");
    make("links");
    EXPECT(syscall(SYS_symlink, "../data/deep", "links/to-deep") == 0);

    /* Paths that the kernel returns contain no links. */
    EXPECT(chdir("src") == 0);
    EXPECT(open("../data/beside", O_CREAT | O_RDWR, 0600) >= 0);
    EXPECT(stat(".././data//beside", &facts) == 0);
    int deep = syscall(SYS_open, "../links/to-deep", O_RDONLY | O_DIRECTORY);
    EXPECT(openat(deep, "../beside", O_RDONLY) >= 0);

    /* For other directories, the tracer queries the kernel. */
    sprintf(path, "%s/src/../data/deep/../below", above);
    EXPECT(open(path, O_CREAT | O_RDWR, 0600) >= 0);
    sprintf(path, "%s/links/to-deep/../odd", above);
    EXPECT(open(path, O_CREAT | O_RDWR, 0600) >= 0);
    sprintf(path, "%s/links/to-deep/../../odd", above);
    EXPECT(open(path, O_CREAT | O_RDWR, 0600) >= 0);

    /* Below the root, each file has its own name. */
    EXPECT(chdir("/") == 0);
    sprintf(path, ".%s/data/first", above);
    EXPECT(open(path, O_CREAT | O_RDWR, 0600) >= 0);
    sprintf(path, ".%s/data/second", above);
    EXPECT(open(path, O_CREAT | O_RDWR, 0600) >= 0);
    return PASSED;
}
