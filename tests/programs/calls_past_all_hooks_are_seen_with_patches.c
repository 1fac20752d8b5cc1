/* Calls through pointers that a program has looked up in the C library, and calls inside streams: each is recorded
 * once, only with DLIO_TRACE_INLINE. */
//= case: patched
//= env: DLIO_TRACE_INLINE=1
//= events: open=2 read=2 pread=1 close=2 fopen=2 fread=1 fwrite=1 fclose=2 __open=2 __read=1 __write=1 __close=2
//= bytes: read=17 pread=10 fread=50 fwrite=5
//= positions read: 0 0
//= case: as they are
//= events: open=1 read=1 close=1 fopen=2 fread=1 fwrite=1 fclose=2
//= case: patched, in a child and with threads
//= env: DLIO_TRACE_INLINE=1
//= run: twice
//= processes: 2
//= endings: exit 42, exit 42
//= among: open=4 read=4 pread=2 close=4 __read=2
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "expect.h"

static const char *self;

static void *work(void *unused) {
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    int (*direct_open)(const char *, int, ...) = dlsym(libc, "open");
    ssize_t (*direct_read)(int, void *, size_t) = dlsym(libc, "read");
    ssize_t (*direct_pread)(int, void *, size_t, off_t) = dlsym(libc, "pread");
    int (*direct_close)(int) = dlsym(libc, "close");
    char bytes[100];
    int fd = direct_open(self, O_RDONLY);
    EXPECT(direct_read(fd, bytes, 10) == 10);
    EXPECT(direct_pread(fd, bytes, 10, 5) == 10);
    EXPECT(direct_close(fd) == 0);
    FILE *stream = fopen(self, "r");
    EXPECT(fread(bytes, 1, 50, stream) == 50);
    EXPECT(fclose(stream) == 0);
    stream = fopen("written", "w");
    EXPECT(fwrite("hello", 1, 5, stream) == 5);
    EXPECT(fclose(stream) == 0);
    fd = open(self, O_RDONLY);
    EXPECT(read(fd, bytes, 7) == 7);
    EXPECT(close(fd) == 0);
    return NULL;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) {
        pid_t child = fork();
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
        if (child == 0) return PASSED;
        int status;
        EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
        return PASSED;
    }
    work(NULL);
    return PASSED;
}
