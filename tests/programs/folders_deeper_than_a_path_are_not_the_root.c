/* The kernel does not return a working directory whose path is too long: a relative name there must not appear below
 * the root. */
//= on <unknown folder>/leaf: open=1 close=1
//= on <unknown folder>/by-descriptor: openat=1 close=1
//= on /top: open=1 close=1
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "expect.h"

static void touch(int fd) { EXPECT(fd >= 0 && close(fd) == 0); }

int main(void) {
    char name[201];
    memset(name, 'D', 200);
    name[200] = 0;
    touch(open("top", O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 30; i++) EXPECT(mkdir(name, 0700) == 0 && chdir(name) == 0);
    touch(open("leaf", O_CREAT | O_WRONLY, 0600));
    int here = open(".", O_RDONLY | O_DIRECTORY);
    touch(openat(here, "by-descriptor", O_CREAT | O_WRONLY, 0600));
    touch(here);
    return PASSED;
}
