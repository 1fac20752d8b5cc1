/* Prints the lowest free descriptor, the list of open ones, and how many a limit of eight allows; the output is
 * compared with the untraced run. */
//= case: plain
//= among: pread=50000
//= case: a limit of eight
//= run: 8
//= among: close=4
//= lost: >=1
//= says: no descriptor left
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include "expect.h"

int main(int argc, char **argv) {
    char byte;
    if (argc > 1) {
        struct rlimit limit = {8, 8};
        EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    int fd, opened = 0;
    for (int i = 0; i < 20 && (fd = open(argv[0], O_RDONLY)) >= 0; i++) opened++;
    for (int i = 0; i < 50000; i++) EXPECT(pread(3, &byte, 1, i % 1000) == 1);
    printf("%d opened, the last is %d, errno %d\n", opened, fd, errno);
    for (int i = 4; i < 8; i++) close(i);
    DIR *list = opendir("/proc/self/fd");
    for (struct dirent *entry; list && (entry = readdir(list));) printf("%s\n", entry->d_name);
    return PASSED;
}
