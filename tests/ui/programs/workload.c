/* Known I/O for the viewer's tests: workload FILE THREADS ROUNDS [PROCESSES] [kill]
 *
 * Each thread of each process opens FILE, queries its size, reads three parts, seeks and closes, ROUNDS times. With `kill`
 * the process then kills itself, so that the tracer does not run at its end. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *file;
static int rounds;

static void *work(void *unused) {
    char piece[4096];
    struct stat about;
    for (int i = 0; i < rounds; i++) {
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &about) != 0) exit(1);
        for (int k = 0; k < 3; k++)
            if (pread(fd, piece, sizeof piece, 4096L * ((i * 3 + k) % 16)) != sizeof piece) exit(1);
        lseek(fd, 0, SEEK_END);
        close(fd);
    }
    return unused;
}

static void run(int threads) {
    pthread_t ids[64];
    for (int i = 0; i < threads; i++) pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    file = argv[1];
    int threads = atoi(argv[2]);
    rounds = atoi(argv[3]);
    int processes = argc > 4 ? atoi(argv[4]) : 0;
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            run(threads);
            exit(0);
        }
    while (wait(NULL) > 0) {}
    if (processes == 0) run(threads);
    if (argc > 5 && strcmp(argv[5], "kill") == 0) raise(SIGKILL);
    return 0;
}
