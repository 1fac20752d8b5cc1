/* Calls of all kinds whose recording depends on the architecture: numbers of system calls, layouts, variadic functions. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PASSED = 42 };

static void *reads(void *path) {
    char bytes[10];
    int fd = open(path, O_RDONLY);
    for (int i = 0; i < 3000; i++) {
        if (pread(fd, bytes, 5, i % 3) != 5) return path;
    }
    close(fd);
    return NULL;
}

static int streams(void) {
    char line[100];
    int number;
    FILE *stream = fopen("stream", "w+");
    if (stream == NULL || fprintf(stream, "line %d of %s %.1f\n", 7, "many", 2.5) != 19) return 1;
    if (fputs("abc\n", stream) < 0 || fwrite("0123456789", 1, 10, stream) != 10) return 2;
    rewind(stream);
    if (fscanf(stream, "line %d", &number) != 1 || number != 7) return 3;
    if (fgets(line, sizeof line, stream) == NULL || strcmp(line, " of many 2.5\n") != 0) return 4;
    return fseek(stream, 2, SEEK_SET) || fgetc(stream) != 'n' || fclose(stream) ? 5 : 0;
}

static int descriptors(void) {
    char bytes[100] = "0123456789";
    struct iovec parts[2] = {{bytes, 4}, {bytes + 4, 6}};
    struct stat facts;
    struct statfs system;
    int fd = open("data", O_RDWR | O_CREAT | O_EXCL, 0600), copy = open("copy", O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || copy < 0 || writev(fd, parts, 2) != 10 || pwrite(fd, bytes, 10, 10) != 10) return 10;
    if (lseek(fd, 0, SEEK_SET) != 0 || read(fd, bytes, 7) != 7 || readv(fd, parts, 2) != 10) return 11;
    if (fstat(fd, &facts) || facts.st_size != 20 || stat("data", &facts) || statfs(".", &system)) return 12;
    if (lseek(fd, 0, SEEK_SET) != 0 || sendfile(copy, fd, NULL, 20) != 20 || fsync(copy) || fdatasync(fd)) return 13;
    void *memory = mmap(NULL, 20, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || memcmp(memory, "0123", 4) != 0 || munmap(memory, 20)) return 14;
    if (ftruncate(fd, 5) || posix_fallocate(fd, 0, 30) || dup2(fd, 100) != 100 || close(100) || close(fd)) return 15;
    if (mkdir("directory", 0700) || rename("copy", "directory/copy") || symlink("data", "link")) return 16;
    return unlink("link") || unlink("directory/copy") || rmdir("directory") || access("absent", F_OK) == 0 ? 17 : 0;
}

int main(void) {
    pthread_t threads[4];
    int status, failed = streams();
    if (failed || (failed = descriptors())) return failed;
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, reads, "data");
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result) return 20;
    }
    int child = fork();
    if (child == 0) _exit(open("data", O_RDONLY) < 0 ? 1 : 3);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) return 21;
    return PASSED;
}
