/* 4,095 bytes are the longest path that the kernel accepts. */
//= case: absolute
//= run: absolute
//= events: open=1 close=1
//= on the-end: open=1 close=1
//= case: relative
//= run: relative
//= events: open=1 close=1
//= on the-end: open=1 close=1
//= case: with parts that say nothing
//= run: dots
//= events: open=1 close=1
//= on the-end: open=1 close=1
//= case: with parts that lead back
//= run: back
//= events: open=1 close=1
//= on the-end: open=1 close=1
#include <fcntl.h>
#include <sys/syscall.h>
#include "expect.h"

enum { LENGTH = 4095 };

int main(int argc, char **argv) {
    static char path[LENGTH + 1];
    const char *how = argv[argc - 1], *part = "a-folder-in-the-one-before/", *end = "the-end";
    if (!strcmp(how, "dots")) part = "././././";
    if (!strcmp(how, "back")) part = "here/../";
    syscall(SYS_mkdir, "here", 0700);
    if (!strcmp(argv[1], "absolute")) EXPECT(getcwd(path, sizeof path) && strcat(path, "/"));
    while (LENGTH - strlen(path) >= strlen(part) + strlen(end)) {
        strcat(path, part);
        syscall(SYS_mkdir, path, 0700);
    }
    while (LENGTH - strlen(path) > strlen(end)) strcat(path, "x");
    strcat(path, end);
    EXPECT(strlen(path) == LENGTH);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0 && close(fd) == 0);
    return PASSED;
}
