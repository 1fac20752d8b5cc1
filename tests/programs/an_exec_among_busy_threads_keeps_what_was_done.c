/* Three threads read while a fourth one executes another program. Each thread counts its calls in shared memory, and
 * every call that was counted before the exec is recorded. */
//= run: first
//= among: exec=1 fstat=1
//= processes: 2
//= endings: exec, exit 42
//= lost: *
//= may-say: events are lost
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include "expect.h"

static int fd;
static volatile long done;

static void *busy(void *none) {
    char byte;
    for (;;) {
        pread(fd, &byte, 1, 0);
        __sync_fetch_and_add(&done, 1);
    }
}

int main(int argc, char **argv) {
    struct stat found;
    pthread_t thread;
    fd = open(argv[0], O_RDONLY | O_CLOEXEC);
    if (!strcmp(argv[1], "second")) {
        EXPECT(fstat(fd, &found) == 0);
        return PASSED;
    }
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, busy, NULL);
    while (done < 50000) sched_yield();
    execl(argv[0], argv[0], "second", (char *)NULL);
    return 1;
}
