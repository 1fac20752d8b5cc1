/* Calls before and after main: constructors of every priority, atexit, destructors, a thread's own destructor, and
 * thread-local destructors of the main thread. */
//= events: open=1 pread=107 close=0
#include <fcntl.h>
#include <pthread.h>
#include "expect.h"

static int fd = -1;
static pthread_key_t key;

static void reads(int count) {
    char bytes[16];
    for (int i = 0; i < count; i++) EXPECT(pread(fd, bytes, 16, 0) == 16);
}

__attribute__((constructor(101))) static void first(int argc, char **argv) {
    fd = open(argv[0], O_RDONLY);
    reads(1);
}
__attribute__((constructor)) static void second(void) { reads(1); }
__attribute__((destructor(101))) static void last(void) { reads(1); }
__attribute__((destructor)) static void almost_last(void) { reads(1); }
static void at_exit(void) { reads(1); }
static void thread_ends(void *none) { reads(1); }

static void *thread(void *none) {
    pthread_setspecific(key, &key);
    reads(100);
    return NULL;
}

int main(void) {
    pthread_t id;
    atexit(at_exit);
    pthread_key_create(&key, thread_ends);
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    reads(1);
    return PASSED;
}
