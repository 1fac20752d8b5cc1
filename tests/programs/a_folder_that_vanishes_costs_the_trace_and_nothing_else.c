/* The trace directory is removed during the run. */
//= run: {trace}
//= processes: *
//= endings: *
//= lost: *
//= damage: yes
//= says: the directory is missing
#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[64], command[4096];
    int fd = open(argv[0], O_RDONLY);
    for (int i = 0; i < 100000; i++) {
        if (i == 50000) {
            sprintf(command, "rm -rf %s", argv[1]);
            unsetenv("LD_PRELOAD");
            EXPECT(system(command) == 0);
        }
        EXPECT(pread(fd, bytes, i % 64, i % 4096) == i % 64);
    }
    return PASSED;
}
