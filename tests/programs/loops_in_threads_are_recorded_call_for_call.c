/* A loop of one kind of call in 1, 2 and 8 threads: the recorded calls are the issued calls, function by function. */
//= case: pread, 1 threads
//= run: pread 1 4000
//= events: stat=1 open=1 pread=1*4000 close=1
//= bytes: pread=1*4000*4096
//= case: read, 1 threads
//= run: read 1 4000
//= events: stat=1 open=1 read=1*4000 lseek=1*62 close=1
//= case: write, 1 threads
//= run: write 1 4000
//= events: stat=1 open=1 lseek=1 write=1*4000 close=1 unlink=1
//= bytes: write=1*4000*4096
//= case: openclose, 1 threads
//= run: openclose 1 4000
//= events: stat=1 open=1*4000 close=1*4000
//= case: stat, 1 threads
//= run: stat 1 4000
//= events: stat=4001
//= case: fread, 1 threads
//= run: fread 1 4000
//= events: stat=1 fopen=1 fread=1*4000 rewind=1*62 fclose=1
//= case: mixed, 1 threads
//= run: mixed 1 4000
//= events: stat=1 open=1*400 fstat=1*400 pread=1*2400 lseek=1*400 close=1*400
//= bytes: pread=1*2400*4096
//= case: pread, 2 threads
//= run: pread 2 4000
//= events: stat=1 open=2 pread=2*4000 close=2
//= bytes: pread=2*4000*4096
//= case: read, 2 threads
//= run: read 2 4000
//= events: stat=1 open=2 read=2*4000 lseek=2*62 close=2
//= case: write, 2 threads
//= run: write 2 4000
//= events: stat=1 open=2 lseek=2 write=2*4000 close=2 unlink=2
//= bytes: write=2*4000*4096
//= case: openclose, 2 threads
//= run: openclose 2 4000
//= events: stat=1 open=2*4000 close=2*4000
//= case: stat, 2 threads
//= run: stat 2 4000
//= events: stat=8001
//= case: fread, 2 threads
//= run: fread 2 4000
//= events: stat=1 fopen=2 fread=2*4000 rewind=2*62 fclose=2
//= case: mixed, 2 threads
//= run: mixed 2 4000
//= events: stat=1 open=2*400 fstat=2*400 pread=2*2400 lseek=2*400 close=2*400
//= bytes: pread=2*2400*4096
//= case: pread, 8 threads
//= run: pread 8 4000
//= events: stat=1 open=8 pread=8*4000 close=8
//= bytes: pread=8*4000*4096
//= case: read, 8 threads
//= run: read 8 4000
//= events: stat=1 open=8 read=8*4000 lseek=8*62 close=8
//= case: write, 8 threads
//= run: write 8 4000
//= events: stat=1 open=8 lseek=8 write=8*4000 close=8 unlink=8
//= bytes: write=8*4000*4096
//= case: openclose, 8 threads
//= run: openclose 8 4000
//= events: stat=1 open=8*4000 close=8*4000
//= case: stat, 8 threads
//= run: stat 8 4000
//= events: stat=32001
//= case: fread, 8 threads
//= run: fread 8 4000
//= events: stat=1 fopen=8 fread=8*4000 rewind=8*62 fclose=8
//= case: mixed, 8 threads
//= run: mixed 8 4000
//= events: stat=1 open=8*400 fstat=8*400 pread=8*2400 lseek=8*400 close=8*400
//= bytes: pread=8*2400*4096
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

#define SIZE 4096
/* 64 blocks: once per 64 turns, a read and an fread find the end of the file. */
#define BLOCKS 63

static const char *mode;
static long operations;

static void preads(char *bytes) {
    int fd = open("data", O_RDONLY);
    for (long i = 0; i < operations; i++) EXPECT(pread(fd, bytes, SIZE, i % (BLOCKS - 1) * SIZE) == SIZE);
    close(fd);
}

static void reads(char *bytes) {
    int fd = open("data", O_RDONLY);
    for (long i = 0; i < operations; i++)
        if (read(fd, bytes, SIZE) == 0) lseek(fd, 0, SEEK_SET);
    close(fd);
}

static void writes(char *bytes, long id) {
    char path[32];
    sprintf(path, "out%ld", id);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    for (long i = 0; i < operations; i++) {
        if (i % 4096 == 0) lseek(fd, 0, SEEK_SET);
        EXPECT(write(fd, bytes, SIZE) == SIZE);
    }
    close(fd);
    unlink(path);
}

static void opens(void) {
    for (long i = 0; i < operations; i++) {
        int fd = open("data", O_RDONLY);
        EXPECT(fd >= 0);
        close(fd);
    }
}

static void stats(void) {
    struct stat found;
    for (long i = 0; i < operations; i++) EXPECT(stat("data", &found) == 0);
}

static void freads(char *bytes) {
    FILE *stream = fopen("data", "r");
    for (long i = 0; i < operations; i++)
        if (fread(bytes, 1, SIZE, stream) < SIZE) rewind(stream);
    fclose(stream);
}

static void mixes(char *bytes) {
    struct stat found;
    for (long i = 0; i < operations / 10; i++) {
        int fd = open("data", O_RDONLY);
        fstat(fd, &found);
        for (int k = 0; k < 6; k++) EXPECT(pread(fd, bytes, SIZE, (i * 6 + k) % (BLOCKS - 1) * SIZE) == SIZE);
        lseek(fd, 0, SEEK_SET);
        close(fd);
    }
}

static void *work(void *id) {
    static __thread char bytes[SIZE];
    if (!strcmp(mode, "pread")) preads(bytes);
    if (!strcmp(mode, "read")) reads(bytes);
    if (!strcmp(mode, "write")) writes(bytes, (long)id);
    if (!strcmp(mode, "openclose")) opens();
    if (!strcmp(mode, "stat")) stats();
    if (!strcmp(mode, "fread")) freads(bytes);
    if (!strcmp(mode, "mixed")) mixes(bytes);
    return NULL;
}

/* Creates the file without a traced call. */
static void make_data(void) {
    static char block[SIZE];
    int fd = syscall(SYS_open, "data", O_CREAT | O_WRONLY, 0644);
    for (int i = 0; i < BLOCKS; i++) syscall(SYS_write, fd, block, SIZE);
    syscall(SYS_close, fd);
}

int main(int argc, char **argv) {
    struct stat found;
    pthread_t threads[8];
    EXPECT(argc == 4);
    mode = argv[1];
    long count = atol(argv[2]);
    operations = atol(argv[3]);
    make_data();
    EXPECT(stat("data", &found) == 0);
    for (long i = 0; i < count; i++) EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (long i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return PASSED;
}
