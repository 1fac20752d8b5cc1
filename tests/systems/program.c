/* The work of typical jobs in one program: files, streams, threads, children, libraries. Exits with 17 on success, and with the
 * number of the first failed step otherwise. The argument is a library that is loaded, and loaded once more in a separate
 * namespace. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, READS = 50 };

static sem_t done;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready;

static void *reads(void *argument) {
    char bytes[10];
    int fd = open("/etc/passwd", O_RDONLY);
    for (int i = 0; i < READS; i++) {
        if (pread(fd, bytes, sizeof bytes, i) != sizeof bytes) _exit(1);
    }
    close(fd);
    pthread_mutex_lock(&mutex);
    ready++;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    sem_post(&done);
    return argument;
}

static int threads(void) {
    pthread_t all[THREADS];
    sem_init(&done, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&all[i], NULL, reads, NULL) != 0) return 0;
    }
    pthread_mutex_lock(&mutex);
    while (ready < THREADS) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++) {
        if (sem_wait(&done) != 0 || pthread_join(all[i], NULL) != 0) return 0;
    }
    return 1;
}

static int files(void) {
    char bytes[6];
    struct stat facts;
    int fd = open("made", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int went_well = write(fd, "hello\n", 6) == 6 && lseek(fd, 0, SEEK_SET) == 0 && read(fd, bytes, 6) == 6;
    went_well = went_well && fstat(fd, &facts) == 0 && facts.st_size == 6 && stat("made", &facts) == 0;
    return close(fd) == 0 && went_well && memcmp(bytes, "hello\n", 6) == 0;
}

static int streams(void) {
    char line[100];
    int number = 0;
    FILE *stream = fopen("made", "a+");
    fprintf(stream, "more %d\n", 3);
    rewind(stream);
    int went_well = fgets(line, sizeof line, stream) != NULL && strcmp(line, "hello\n") == 0;
    went_well = went_well && fscanf(stream, "more %d", &number) == 1 && number == 3;
    return fclose(stream) == 0 && went_well;
}

static int children(char **arguments) {
    char bytes[100];
    int ends[2], status;
    FILE *stream = popen("cat made", "r");
    if (fread(bytes, 1, sizeof bytes, stream) != 13 || pclose(stream) != 0) return 0;
    if (pipe(ends) != 0) return 0;
    pid_t child = fork();
    if (child == 0) {
        if (write(ends[1], "x", 1) != 1) _exit(1);
        execl(arguments[0], arguments[0], arguments[1], "again", (char *)NULL);
        _exit(1);
    }
    struct pollfd waits = {ends[0], POLLIN, 0};
    int went_well = poll(&waits, 1, -1) == 1 && read(ends[0], bytes, 1) == 1;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 9 && went_well;
}

int main(int count, char **arguments) {
    struct timespec moment = {0, 1000};
    if (count > 2) {
        puts(arguments[2]);
        return 9;
    }
    if (!threads()) return 2;
    if (!files()) return 3;
    if (!streams()) return 4;
    if (!children(arguments)) return 5;
    if (dlopen(arguments[1], RTLD_NOW) == NULL || dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW) == NULL) return 6;
    nanosleep(&moment, NULL);
    puts("done");
    return unlink("made") == 0 ? 17 : 7;
}
