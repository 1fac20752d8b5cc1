/* A library the program is linked with is initialised before a preloaded one: its constructor's calls come first of all. */
//= library: reads.c
//= compile: {library}
//= events: open=3 pread=3 close=3
#include "expect.h"

int reads(const char *);

int main(void) {
    EXPECT(reads("/etc/passwd") == 1);
    return PASSED;
}
