/* Each exec function starts this program again with the next number. Every image leaves its own trace, and all
 * arguments arrive. An environment that the caller builds lacks the tracer's variables, which are added. */
//= run: 0
//= env: KEEP=kept
//= among: exec=9 pread=10
//= processes: 10
//= endings: exec, exec, exec, exec, exec, exec, exec, exec, exec, exit 42
#include <fcntl.h>
#include "expect.h"

extern char **environ;

int main(int argc, char **argv) {
    char self[4096], next[12], bytes[16];
    EXPECT(argc == 2 || argc == 8);
    if (argc == 8) EXPECT(!strcmp(argv[2], "b") && !strcmp(argv[6], "f") && !strcmp(argv[7], "g"));
    int step = atoi(argv[1]);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length] = 0;
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    EXPECT(pread(fd, bytes, 16, 0) == 16);
    EXPECT(fcntl(fd, F_GETFD) == FD_CLOEXEC && fd == 3);
    next[0] = '1' + step;
    next[1] = 0;
    char *list[] = {self, next, "b", "c", "d", "e", "f", "g", NULL};
    char *own[] = {"OWN=1", NULL};
    char *folder = strdup(self);
    *strrchr(folder, '/') = 0;
    const char *name = strrchr(self, '/') + 1;
    EXPECT(step < 5 ? getenv("KEEP") != NULL : 1);
    setenv("PATH", folder, 1);
    switch (step) {
    case 0: execl(self, self, next, "b", "c", "d", "e", "f", "g", (char *)NULL); break;
    case 1: execv(self, list); break;
    case 2: execlp(name, self, next, "b", "c", "d", "e", "f", "g", (char *)NULL); break;
    case 3: execvp(name, list); break;
    case 4: execle(self, self, next, "b", "c", "d", "e", "f", "g", (char *)NULL, own); break;
    case 5: EXPECT(getenv("OWN") && !getenv("KEEP")); execve(self, list, own); break;
    case 6: execvpe(name, list, own); break;
    case 7: fexecve(open(self, O_RDONLY | O_CLOEXEC), list, own); break;
    case 8: execveat(AT_FDCWD, self, list, own, 0); break;
    case 9: return PASSED;
    }
    return 1;
}
