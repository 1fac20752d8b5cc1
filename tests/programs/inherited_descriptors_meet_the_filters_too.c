/* stdin was opened by another process, here on /dev/null, which is skipped: this applies from the first call. */
//= events: lseek=0
//= processes: *
//= case: as it is
//= case: everything asked for
//= env: DLIO_TRACE_ALL=1
//= events: read=2 fcntl=1
#include <fcntl.h>
#include "expect.h"

int main(void) {
    char byte;
    EXPECT(read(0, &byte, 1) == 0 && read(0, &byte, 1) == 0);
    EXPECT(fcntl(0, F_GETFL) >= 0);
    return PASSED;
}
