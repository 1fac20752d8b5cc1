/* Writes during fclose, fflush and freopen belong to the stream's file, and so does the close inside. Files that a
 * filter skips have no events. */
//= env: DLIO_TRACE_INLINE=1
//= case: all
//= on closed: fopen=1 fwrite=1 fclose=1 __open=1 __write=1 __close=1
//= on flushed: fopen=1 fwrite=1 fflush=1 fclose=1 __open=1 __write=1 __close=1
//= on first: fopen=1 fwrite=1 __open=1 __write=1
//= on second: freopen=1 fwrite=1 fclose=1 __open=1 __write=1 __close=2
//= on opened: open=1 fdopen=1 fwrite=1 fclose=1 __write=1 __close=1
//= case: filtered
//= env: DLIO_TRACE_EXCLUDE={work}/closed:{work}/first:{work}/opened
//= on closed:
//= on first:
//= on opened:
//= among: __write=2 __close=3
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "expect.h"

int main(void) {
    FILE *stream = fopen("closed", "w");
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    EXPECT(fclose(stream) == 0);
    stream = fopen("flushed", "w");
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    EXPECT(fflush(stream) == 0 && fclose(stream) == 0);
    stream = fopen("first", "w");
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    stream = freopen("second", "w", stream);
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    EXPECT(fclose(stream) == 0);
    stream = fdopen(open("opened", O_CREAT | O_WRONLY, 0600), "w");
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    EXPECT(fclose(stream) == 0);
    char *memory;
    size_t size;
    stream = open_memstream(&memory, &size);
    EXPECT(fwrite("hello", 1, 5, stream) == 5 && fclose(stream) == 0 && size == 5);
    return PASSED;
}
