/* Strict seccomp: any system call except read, write and exit kills the thread, and so does the time-stamp counter.
 * Earlier events are kept, later ones count as lost. Another thread is recorded as usual. */
//= lost: 3000
//= leftovers: yes
//= formats: native
//= case: alone
//= endings: killed
//= among: open=1 write=1 pwrite=100
//= case: alone, by the kernel's call
//= run: syscall
//= endings: killed
//= among: open=1 write=1 pwrite=100
//= case: in a thread
//= run: thread
//= says: 3000 events were lost
//= among: open=1 write=1 pwrite=5100
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "expect.h"

static int fd, way;

static void *confined(void *unused) {
    if (way == 1) {
        EXPECT(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
    } else {
        EXPECT(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    }
    for (int i = 0; i < 3000; i++) EXPECT(write(fd, "x", 1) == 1);
    syscall(SYS_exit, PASSED);
    return unused;
}

int main(int argc, char **argv) {
    way = argc < 2 ? 0 : strcmp(argv[1], "syscall") == 0 ? 1 : 2;
    fd = open("data", O_CREAT | O_WRONLY, 0600);
    EXPECT(fd >= 0 && write(fd, "x", 1) == 1);
    EXPECT(prctl(PR_SET_SECCOMP, -1) == -1);
    for (int i = 0; i < 100; i++) EXPECT(pwrite(fd, "x", 1, i) == 1);
    if (way < 2) confined(NULL);
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, confined, NULL) == 0 && pthread_join(thread, NULL) == 0);
    for (int i = 0; i < 5000; i++) EXPECT(pwrite(fd, "x", 1, i) == 1);
    return PASSED;
}
