/* A program without stdin and stderr gets their numbers for its files; another descriptor is the largest possible
 * number. */
//= events: close=4 open=2 dup2=1 write=3
//= on data: open=1 dup2=1 write=2 close=2
//= on other: open=1 write=1
//= results open: 0 0
//= positions write: 0 1 0
#include <fcntl.h>
#include <sys/resource.h>
#include "expect.h"

int main(int argc, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    int top = limit.rlim_max - 1;
    EXPECT(close(0) == 0 && close(2) == 0);
    int data = open("data", O_CREAT | O_WRONLY, 0600);
    EXPECT(dup2(data, top) == top);
    EXPECT(write(data, "a", 1) == 1 && write(top, "b", 1) == 1);
    EXPECT(close(data) == 0 && close(top) == 0);
    int other = open("other", O_CREAT | O_WRONLY, 0600);
    EXPECT(write(other, "c", 1) == 1);
    return PASSED;
}
