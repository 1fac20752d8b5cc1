//= events: open=4 close=4
//= threads: ended lives
// One thread ends before the process, one is still running, one has no name, and one makes no event.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include "expect.h"

static const char *file;
static pthread_barrier_t done;

static void touch(void) {
    EXPECT(close(open(file, O_RDONLY)) == 0);
}

static void *named(void *name) {
    EXPECT(pthread_setname_np(pthread_self(), name) == 0);
    touch();
    return NULL;
}

static void *nameless(void *none) {
    touch();
    return none;
}

static void *silent(void *name) {
    EXPECT(pthread_setname_np(pthread_self(), name) == 0);
    return NULL;
}

static void *lives(void *name) {
    named(name);
    pthread_barrier_wait(&done);
    for (;;) syscall(SYS_pause);
}

static void run(void *(*body)(void *), char *name) {
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, body, name) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    pthread_t thread;
    file = argv[0];
    run(named, "ended");
    run(nameless, NULL);
    run(silent, "silent");
    pthread_barrier_init(&done, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, lives, "lives") == 0);
    pthread_barrier_wait(&done);
    touch();
    return 42;
}
