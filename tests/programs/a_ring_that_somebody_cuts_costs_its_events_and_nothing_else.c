/* A cleanup script truncates the ring while the program records into it. The events in the ring are lost, the
 * remains of the ring and a message show it, and the program continues with another trace file. */
//= processes: *
//= endings: *
//= lost: *
//= damage: yes
//= leftovers: yes
//= formats: native
//= says: was truncated by another process
//= case: to nothing
//= run: {trace} 0 0
//= among: pwrite=>=4000
//= case: to its first page
//= run: {trace} 4096 4096
//= among: pwrite=>=4000
//= case: to nothing, and made long again
//= run: {trace} 0 1000000
//= among: pwrite=>=4000
//= case: after thousands of calls
//= run: {trace} 0 0 9000
//= among: pwrite=>=4000
//= case: at the end
//= run: {trace} 0 0 100 0
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "expect.h"

static int fd;

static void *work(void *count) {
    for (long i = 0; i < (long)count; i++) EXPECT(pwrite(fd, "x", 1, i) == 1);
    return NULL;
}

/* Raw system calls, like those of another process: the tracer does not see them. */
static void cut(const char *folder, long first, long second) {
    char names[65536];
    int dir = syscall(SYS_openat, AT_FDCWD, folder, O_RDONLY | O_DIRECTORY);
    long length = dir < 0 ? 0 : syscall(SYS_getdents64, dir, names, sizeof names);
    for (long at = 0; at < length;) {
        struct dirent64 *entry = (struct dirent64 *)(names + at);
        if (strstr(entry->d_name, ".ring")) {
            int ring = syscall(SYS_openat, dir, entry->d_name, O_WRONLY);
            EXPECT(ring >= 0 && syscall(SYS_ftruncate, ring, first) == 0);
            EXPECT(syscall(SYS_ftruncate, ring, second) == 0 && syscall(SYS_close, ring) == 0);
        }
        at += entry->d_reclen;
    }
    if (dir >= 0) syscall(SYS_close, dir);
}

int main(int argc, char **argv) {
    long before = argc > 4 ? atol(argv[4]) : 100, after = argc > 5 ? atol(argv[5]) : 5000;
    fd = open("data", O_CREAT | O_RDWR, 0600);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, work, (void *)before) == 0);
    for (int i = 0; i < 3; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    work((void *)before);
    cut(argv[1], atol(argv[2]), atol(argv[3]));
    for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, work, (void *)after) == 0);
    work((void *)after);
    for (int i = 0; i < 3; i++) EXPECT(pthread_join(threads[i], NULL) == 0);
    return PASSED;
}
