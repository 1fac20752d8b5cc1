/* Makes a known number of calls, in steps: worker DIR READS OPENS. After each step it prints a line, and waits for one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition) do { if (!(condition)) { perror(#condition); exit(1); } } while (0)

int main(int argc, char **argv) {
    char data[4096], other[4096], block[1000], letter;
    int reads = atoi(argv[2]), opens = atoi(argv[3]);
    snprintf(data, sizeof data, "%s/data.%d", argv[1], getpid());
    snprintf(other, sizeof other, "%s/missing", argv[1]);
    memset(block, 'x', sizeof block);
    int fd = open(data, O_RDWR | O_CREAT, 0600);
    EXPECT(fd >= 0 && write(fd, block, sizeof block) == sizeof block);
    do {
        for (int i = 0; i < reads; i++) EXPECT(pread(fd, block, 100, i % 900) == 100);
        for (int i = 0; i < opens; i++) EXPECT(open(other, O_RDONLY) == -1);
        EXPECT(write(1, "done\n", 5) == 5);
    } while (read(0, &letter, 1) == 1);
    return 42;
}
