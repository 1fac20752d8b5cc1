/* Twice as many names as the tracer remembers, including long names and names that are not valid UTF-8. */
//= events: open=40003 close=40003
//= files: 20003
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include "expect.h"

static void opens(const char *path, int create) {
    if (create) syscall(SYS_close, syscall(SYS_open, path, O_CREAT | O_WRONLY, 0600));
    int fd = open(path, O_RDONLY);
    EXPECT(fd >= 0 && close(fd) == 0);
}

int main(void) {
    char path[300];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 20000; i++) {
            sprintf(path, "a-name-of-some-length-as-files-of-a-data-set-have-them-%d", i);
            opens(path, round == 0);
        }
    memset(path, 'x', 255);
    path[255] = 0;
    opens(path, 1);
    opens("b\xff\xfe", 1);
    opens("with spaces, \"quotes\" and \n lines", 1);
    return PASSED;
}
