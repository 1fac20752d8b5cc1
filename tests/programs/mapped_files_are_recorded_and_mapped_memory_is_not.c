//= events: open=1 close=1 mmap=1 msync=1 mremap=1 madvise=2 munmap=1
//= on data: open=1 close=1 mmap=1 msync=1 mremap=1 madvise=2 munmap=1
//= positions mmap: 4096
//= passes: off filtered
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "expect.h"

int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    syscall(SYS_ftruncate, fd, 1 << 20);
    char *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
    EXPECT(memory != MAP_FAILED && mapped != MAP_FAILED);
    EXPECT(close(fd) == 0);
    mapped[0] = memory[0] = 1;
    EXPECT(msync(mapped, 8192, MS_SYNC) == 0);
    EXPECT(madvise(mapped, 8192, MADV_WILLNEED) == 0 && madvise(memory, 8192, MADV_DONTNEED) == 0);
    EXPECT(posix_madvise(mapped, 8192, POSIX_MADV_SEQUENTIAL) == 0);
    char *moved = mremap(mapped, 8192, 65536, MREMAP_MAYMOVE), *grown = mremap(memory, 8192, 65536, MREMAP_MAYMOVE);
    EXPECT(moved != MAP_FAILED && grown != MAP_FAILED && moved[0] == 1);
    EXPECT(munmap(moved, 65536) == 0 && munmap(grown, 65536) == 0);
    return PASSED;
}
