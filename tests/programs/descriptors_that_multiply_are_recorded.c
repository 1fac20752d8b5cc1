//= events: open=1 dup=1 dup2=2 dup3=1 fcntl=1 pipe=2 write=6 close=2 close_range=1 closefrom=1 memfd_create=1
//= on data: open=1 dup=1 dup2=1 dup3=1 fcntl=1 write=6 close=2
//= results dup2: 50 -9
//= passes: off filtered
#include <fcntl.h>
#include <sys/mman.h>
#include "expect.h"

extern int close_range(unsigned, unsigned, int);
extern void closefrom(int);

int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600), ends[2];
    int copy = dup(fd);
    EXPECT(dup2(fd, 50) == 50 && dup3(fd, 51, O_CLOEXEC) == 51 && fcntl(fd, F_DUPFD, 60) == 60);
    int all[] = {fd, copy, 50, 51, 60};
    for (int i = 0; i < 5; i++) EXPECT(write(all[i], "x", 1) == 1);
    EXPECT(write(fd, "x", 1) == 1);
    EXPECT(close(fd) == 0 && dup2(fd, 70) == -1 && errno == EBADF);
    EXPECT(close(copy) == 0);
    EXPECT(pipe(ends) == 0 && pipe2(ends, O_CLOEXEC) == 0 && memfd_create("x", 0) >= 0);
    EXPECT(close_range(55, 65, 0) == 0);
    closefrom(3);
    return PASSED;
}
