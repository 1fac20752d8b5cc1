/* The way to the trace folder is lost in the middle of the run. */
//= needs: id
//= among: pread=60000 open=1
//= case: setuid
//= run: setuid
//= case: chroot
//= run: chroot
//= case: both
//= run: both
#include <fcntl.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 30000; i++) EXPECT(pread(fd, bytes, 16, i % 100) == 16);
    if (geteuid() != 0) return PASSED;
    if (strcmp(argv[1], "setuid")) EXPECT(chroot("/proc") == 0 && chdir("/") == 0);
    if (strcmp(argv[1], "chroot")) EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    for (int i = 0; i < 30000; i++) EXPECT(pread(fd, bytes, 16, i % 100) == 16);
    return PASSED;
}
