//= endings: exit 42
// A program may exit in a signal handler that interrupted its malloc. Finishing the trace there must not call malloc.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

static void end(int signal) {
    (void)signal;
    _exit(42);
}

int main(int argc, char **argv) {
    (void)argc;
    char byte;
    int fd = open(argv[0], O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) != 1) return 1;
    signal(SIGALRM, end);
    struct itimerval soon = {{0, 0}, {0, 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    for (size_t size = 1;; size = size * 7 % 100003 + 1) {
        void *volatile piece = malloc(size);
        free(piece);
    }
}
