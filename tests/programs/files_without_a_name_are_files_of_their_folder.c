/* A file without a name yet belongs to its directory: it has a unique path and is recorded if files of the directory
 * are. */
//= among: tmpfile=1 fwrite=1
//= bytes: fwrite=3
//= case: all of them
//= among: open=2 write=2
//= bytes: write=8
//= positions write: 0 0
//= files: 4
//= case: without one folder
//= env: DLIO_TRACE_EXCLUDE=/**/inner
//= among: open=1 write=1
//= bytes: write=5
//= positions write: 0
//= files: 2
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "expect.h"

int main(void) {
    mkdir("inner", 0700);
    int here = open(".", O_TMPFILE | O_RDWR, 0600), below = open("inner", O_TMPFILE | O_RDWR, 0600);
    EXPECT(here >= 0 && below >= 0);
    EXPECT(write(here, "hello", 5) == 5 && write(below, "you", 3) == 3);
    FILE *stream = tmpfile();
    EXPECT(stream && fwrite("abc", 1, 3, stream) == 3 && fclose(stream) == 0);
    return PASSED;
}
