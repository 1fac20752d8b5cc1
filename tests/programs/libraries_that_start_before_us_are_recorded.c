/* A library that the program is linked with is initialized before a preloaded one: the calls of its constructor are
 * the first of all. */
//= library: reads.c
//= compile: {library}
//= events: open=3 pread=3 close=3
#include "expect.h"

int reads(const char *);

int main(void) {
    EXPECT(reads("/etc/passwd") == 1);
    return PASSED;
}
