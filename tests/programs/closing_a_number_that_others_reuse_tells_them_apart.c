/* Descriptors are reused for other files again and again: each event has the name of the file at that time. */
//= on one: open=1000 write=1000 close=1000
//= on two: open=1000 write=1000 close=1000
//= events: open=2000 write=2000 close=2000
#include <fcntl.h>
#include "expect.h"

int main(void) {
    for (int i = 0; i < 2000; i++) {
        int fd = open(i % 2 ? "one" : "two", O_CREAT | O_WRONLY, 0600);
        EXPECT(write(fd, "x", 1) == 1);
        EXPECT(close(fd) == 0);
    }
    return PASSED;
}
