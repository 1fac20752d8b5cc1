// Its constructor starts a thread and waits for it, while the loader holds the lock of its own.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *works(void *unused) {
    FILE *file = fopen("made", "w");
    fputs("text", file);
    fclose(file);
    usleep(200000);
    return unused;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, works, NULL);
    pthread_join(thread, NULL);
}
