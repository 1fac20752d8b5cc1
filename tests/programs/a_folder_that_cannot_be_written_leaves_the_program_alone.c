//= processes: 0
//= case: a file in its way
//= env: DLIO_TRACE_DIR=/etc/passwd/trace
//= says: is not a directory
//= case: a kernel's folder
//= env: DLIO_TRACE_DIR=/proc/trace
//= says: runs untraced
//= case: no right
//= run: drop
//= env: DLIO_TRACE_DIR=/no/such/folder
//= says: no permission
//= case: unknown variable
//= env: DLIO_TRACE_DRI=x
//= processes: 1
//= says: did you mean DLIO_TRACE_DIR?
//= case: unknown format
//= env: DLIO_TRACE_FORMAT=parquet
//= processes: 1
//= formats: auto
//= says: expected auto, native, perfetto
//= case: unknown layer
//= env: DLIO_TRACE_LAYERS=posix,dma
//= processes: 1
//= says: DLIO_TRACE_LAYERS=dma is invalid
//= case: no number
//= env: DLIO_TRACE_MIN_US=soon
//= processes: 1
//= says: expected an integer
//= case: no switch
//= env: DLIO_TRACE_ALL=maybe
//= processes: 1
//= says: expected 0 or 1
//= case: empty values
//= env: DLIO_TRACE_INCLUDE=
//= env: DLIO_TRACE_LAYERS=
//= env: DLIO_TRACE_FORMAT=
//= processes: 1
//= formats: auto
//= case: no home and no path
//= env: HOME=
//= env: PATH=
//= processes: 1
#include <fcntl.h>
#include <sys/syscall.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    if (argc > 1) syscall(SYS_setresuid, 65534, 65534, 65534);
    int fd = open("/etc/passwd", O_RDONLY);
    for (int i = 0; i < 5000; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
    return PASSED;
}
