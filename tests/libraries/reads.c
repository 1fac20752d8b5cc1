/* A library that reads a file when it is told to, and when it comes and goes. */
#include <fcntl.h>
#include <unistd.h>

static char byte;

int reads(const char *path) {
    int fd = open(path, O_RDONLY);
    int count = pread(fd, &byte, 1, 0);
    close(fd);
    return count;
}

__attribute__((constructor)) static void comes(void) { reads("/etc/passwd"); }
__attribute__((destructor)) static void goes(void) { reads("/etc/passwd"); }
