/* Dies within two spans: unfinished FILE. What it had read by then lies within them. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "dliotrace.h"

int main(int argc, char **argv) {
    char piece[4096];
    int fd = open(argc > 1 ? argv[1] : argv[0], O_RDONLY);
    dlio_begin("epoch", "pipeline");
    dlio_begin("fetch", "data");
    for (int i = 0; i < 10; i++) pread(fd, piece, sizeof piece, 4096L * i);
    raise(SIGKILL);
    return 0;
}
