/* RLIMIT_FSIZE: the kernel sends SIGXFSZ to a process that writes beyond the limit. The tracer does so, and the
 * program does not. */
//= among: write=0
//= processes: *
//= endings: *
//= lost: *
//= damage: yes
//= case: not even a sentence
//= run: 0
//= case: no room at all
//= run: 8192
//= says: events were lost
//= case: room for a while
//= run: 600000
//= says: events were lost
//= processes: 1
//= endings: exit 42
//= leftovers: yes
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[64];
    rlim_t room = atol(argv[1]);
    struct rlimit limit = {room, room};
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    int fd = open(argv[0], O_RDONLY);
    srand(7);
    for (int i = 0; i < 600000; i++) {
        int size = rand() % 64;
        EXPECT(pread(fd, bytes, size, rand() % 4096) == size);
    }
    sigset_t pending;
    sigpending(&pending);
    EXPECT(!sigismember(&pending, SIGXFSZ));
    return PASSED;
}
