/* The trace directory becomes unreachable during the run. */
//= needs: id
//= among: pread=60000 open=1
//= leftovers: yes
//= case: setuid
//= run: setuid
//= case: chroot
//= run: chroot
//= case: both
//= run: both
//= case: setuid by other names
//= run: names
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/fsuid.h>
#include "expect.h"

extern int capset(void *, const void *);

int main(int argc, char **argv) {
    char bytes[16];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 30000; i++) EXPECT(pread(fd, bytes, 16, i % 100) == 16);
    if (geteuid() != 0) return PASSED;
    if (!strcmp(argv[1], "names")) {
        EXPECT(initgroups("root", 0) == 0 && setgroups(0, NULL) == 0 && unshare(0) == 0 && setns(-1, 0) == -1);
        EXPECT(setfsuid(0) == 0 && setfsgid(0) == 0 && capset(NULL, NULL) == -1);
        EXPECT(setegid(0) == 0 && setregid(0, 0) == 0 && setresgid(65534, 65534, 65534) == 0);
        EXPECT(seteuid(0) == 0 && setreuid(0, 0) == 0 && setresuid(65534, 65534, 65534) == 0);
    } else if (strcmp(argv[1], "setuid")) EXPECT(chroot("/proc") == 0 && chdir("/") == 0);
    if (strcmp(argv[1], "chroot") && strcmp(argv[1], "names")) EXPECT(setgid(65534) == 0 && setuid(65534) == 0);
    for (int i = 0; i < 30000; i++) EXPECT(pread(fd, bytes, 16, i % 100) == 16);
    return PASSED;
}
