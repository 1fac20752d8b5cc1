//= events: open=5 openat=4 creat=2 close=15 mkstemp=8
//= on data: open=4 openat=4 creat=2 close=9
//= passes: off filtered
#define _LARGEFILE64_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include "expect.h"

int __open_2(const char *, int);
int __open64_2(const char *, int);
int __openat_2(int, const char *, int);
int __openat64_2(int, const char *, int);

static int is(int fd) {
    EXPECT(fd >= 0);
    return close(fd);
}

int main(void) {
    char template[32];
    is(creat("data", 0600));
    is(creat64("data", 0600));
    is(open("data", O_RDONLY));
    is(open64("data", O_RDONLY));
    is(__open_2("data", O_RDONLY));
    is(__open64_2("data", O_RDONLY));
    is(openat(AT_FDCWD, "data", O_RDONLY));
    is(__openat_2(AT_FDCWD, "data", O_RDONLY));
    is(__openat64_2(AT_FDCWD, "data", O_RDONLY));
    EXPECT(openat64(12345, "data", O_RDONLY) == -1);
    EXPECT(open("no/such", O_RDONLY) == -1);
#define MADE(suffix, ...) \
    sprintf(template, "XXXXXX%s", suffix); \
    is(__VA_ARGS__)
    MADE("", mkstemp(template));
    MADE("", mkstemp64(template));
    MADE("", mkostemp(template, O_APPEND));
    MADE("", mkostemp64(template, O_APPEND));
    MADE(".x", mkstemps(template, 2));
    MADE(".x", mkstemps64(template, 2));
    syscall(87, template);
    sprintf(template, "XXXXXX.x");
    int fd = mkostemps(template, 2, 0);
    sprintf(template, "XXXXXX.x");
    int last = mkostemps64(template, 2, 0);
    EXPECT(fd >= 0 && last >= 0);
    return PASSED;
}
