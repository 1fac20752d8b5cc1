/* loop: makes calls of one kind, one after another, to measure a tracer. It never links one.
 *   loop MODE THREADS CALLS SIZE FILE [ENDING]
 *
 * MODE    pread, read, write, openclose, stat, fread, mixed (open, fstat, six preads, lseek, close); or distinct,
 *         distinct_here, distinct_at: open, read and close of another file each time, by an absolute path, by one relative
 *         to the working directory, by one relative to a directory's descriptor. Missing files are created next to FILE before
 *         anything is counted.
 * CALLS   of all threads together; one of openclose is an open and a close, one of distinct an open, a read and a close
 * ENDING  return (as usual), _exit, kill, abort or exec: how the process ends after all calls
 *
 * Prints the time of a call per thread, and the number of calls that a tracer can see until then. It prints with a raw system
 * call, which is not one of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 256, MIXED = 10, PREADS = 6, REWIND_EVERY = 4096 };

struct job {
    long id, turns, calls;
    char *buffer;
    double seconds;
};

static const char *file;
static long size;
static off_t reach;
static void (*turns)(struct job *);

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void must(int is_fine, const char *what) {
    if (is_fine) return;
    perror(what);
    exit(1);
}

static int opened(void) {
    int fd = open(file, O_RDONLY);
    must(fd >= 0, file);
    return fd;
}

static void preads(struct job *job) {
    int fd = opened();
    for (long i = 0; i < job->turns; i++) must(pread(fd, job->buffer, size, i * size % reach) >= 0, "pread");
    close(fd);
    job->calls = job->turns + 2;
}

static void reads(struct job *job) {
    int fd = opened();
    job->calls = job->turns + 2;
    for (long i = 0; i < job->turns; i++) {
        ssize_t got = read(fd, job->buffer, size);
        must(got >= 0, "read");
        if (got) continue;
        lseek(fd, 0, SEEK_SET);
        job->calls++;
    }
    close(fd);
}

static void writes(struct job *job) {
    char own[4096];
    snprintf(own, sizeof own, "%s.out%ld", file, job->id);
    int fd = open(own, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    must(fd >= 0, own);
    job->calls = job->turns + 3;
    for (long i = 0; i < job->turns; i++) {
        if (i % REWIND_EVERY == 0) {
            lseek(fd, 0, SEEK_SET);
            job->calls++;
        }
        must(write(fd, job->buffer, size) == size, "write");
    }
    close(fd);
    unlink(own);
}

static void opens(struct job *job) {
    for (long i = 0; i < job->turns; i++) close(opened());
    job->calls = 2 * job->turns;
}

static void stats(struct job *job) {
    struct stat found;
    for (long i = 0; i < job->turns; i++) must(stat(file, &found) == 0, "stat");
    job->calls = job->turns;
}

static void freads(struct job *job) {
    FILE *stream = fopen(file, "r");
    must(stream != NULL, file);
    job->calls = job->turns + 2;
    for (long i = 0; i < job->turns; i++) {
        if (fread(job->buffer, 1, size, stream) == (size_t)size) continue;
        rewind(stream);
        job->calls++;
    }
    fclose(stream);
}

static void mixes(struct job *job) {
    struct stat found;
    for (long i = 0; i < job->turns / MIXED; i++) {
        int fd = opened();
        must(fstat(fd, &found) == 0, "fstat");
        for (int k = 0; k < PREADS; k++)
            must(pread(fd, job->buffer, size, (i * PREADS + k) * size % reach) >= 0, "pread");
        lseek(fd, 0, SEEK_SET);
        close(fd);
    }
    job->calls = job->turns / MIXED * MIXED;
}

/* With a thousand files each, created by raw system calls, which a tracer does not see. */
enum { FILES_IN_FOLDER = 1000 };

static void make_files(long count) {
    char path[4200];
    snprintf(path, sizeof path, "%s-many", file);
    syscall(SYS_mkdirat, AT_FDCWD, path, 0755);
    for (long i = 0; i < count; i++) {
        if (i % FILES_IN_FOLDER == 0) {
            snprintf(path, sizeof path, "%s-many/%05ld", file, i / FILES_IN_FOLDER);
            syscall(SYS_mkdirat, AT_FDCWD, path, 0755);
        }
        snprintf(path, sizeof path, "%s-many/%05ld/sample-%08ld.bin", file, i / FILES_IN_FOLDER, i);
        int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0644);
        must(fd >= 0 && syscall(SYS_write, fd, path, 16) == 16 && syscall(SYS_close, fd) == 0, path);
    }
}

static void reads_small(int fd, const char *path) {
    char bytes[16];
    must(fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes && close(fd) == 0, path);
}

static void opens_distinct(struct job *job) {
    char path[4200];
    for (long i = job->id * job->turns; i < (job->id + 1) * job->turns; i++) {
        snprintf(path, sizeof path, "%s-many/%05ld/sample-%08ld.bin", file, i / FILES_IN_FOLDER, i);
        reads_small(open(path, O_RDONLY), path);
    }
    job->calls = 3 * job->turns;
}

static void opens_distinct_here(struct job *job) {
    char path[64];
    for (long i = job->id * job->turns; i < (job->id + 1) * job->turns; i++) {
        snprintf(path, sizeof path, "%05ld/sample-%08ld.bin", i / FILES_IN_FOLDER, i);
        reads_small(open(path, O_RDONLY), path);
    }
    job->calls = 3 * job->turns;
}

static void opens_distinct_at(struct job *job) {
    char path[4200];
    int folder = -1;
    job->calls = 3 * job->turns;
    for (long i = job->id * job->turns; i < (job->id + 1) * job->turns; i++) {
        if (folder < 0 || i % FILES_IN_FOLDER == 0) {
            if (folder >= 0) close(folder), job->calls++;
            snprintf(path, sizeof path, "%s-many/%05ld", file, i / FILES_IN_FOLDER);
            folder = open(path, O_RDONLY | O_DIRECTORY), job->calls++;
        }
        snprintf(path, sizeof path, "sample-%08ld.bin", i);
        reads_small(openat(folder, path, O_RDONLY), path);
    }
    if (folder >= 0) close(folder), job->calls++;
}

static int is_distinct(void) {
    return turns == opens_distinct || turns == opens_distinct_here || turns == opens_distinct_at;
}

static const struct { const char *name; void (*turns)(struct job *); } MODES[] = {
    {"pread", preads}, {"read", reads}, {"write", writes}, {"openclose", opens},
    {"stat", stats}, {"fread", freads}, {"mixed", mixes}, {"distinct", opens_distinct},
    {"distinct_here", opens_distinct_here}, {"distinct_at", opens_distinct_at},
};

static int mode_is_known(const char *name) {
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
        if (!strcmp(MODES[i].name, name)) turns = MODES[i].turns;
    return turns != NULL;
}

static void *work(void *given) {
    struct job *job = given;
    double began = now();
    turns(job);
    job->seconds = now() - began;
    return NULL;
}

static void print(const char *line, int length) { syscall(SYS_write, STDOUT_FILENO, line, length); }

static void end(const char *how) {
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "exec")) execl("/bin/true", "true", (char *)NULL);
}

int main(int argc, char **argv) {
    long threads = argc > 2 ? atol(argv[2]) : 0;
    if (argc < 6 || !mode_is_known(argv[1]) || threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: loop MODE THREADS CALLS SIZE FILE [ENDING]\n");
        return 2;
    }
    size = atol(argv[4]);
    file = argv[5];
    struct stat found;
    must(stat(file, &found) == 0, file);
    reach = found.st_size > size ? found.st_size - size : 1;

    char many[4200];
    struct stat there;
    snprintf(many, sizeof many, "%s-many/%05ld/sample-%08ld.bin", file, (atol(argv[3]) - 1) / FILES_IN_FOLDER, atol(argv[3]) - 1);
    if (is_distinct() && syscall(SYS_newfstatat, AT_FDCWD, many, &there, 0) != 0) make_files(atol(argv[3]));
    snprintf(many, sizeof many, "%s-many", file);
    if (turns == opens_distinct_here) must(chdir(many) == 0, many);

    static struct job jobs[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    for (long i = 0; i < threads; i++) {
        jobs[i] = (struct job){.id = i, .turns = atol(argv[3]) / threads, .buffer = calloc(1, size)};
        must(jobs[i].buffer && !pthread_create(&ids[i], NULL, work, &jobs[i]), "a thread");
    }
    double seconds = 0;
    long calls = turns == opens_distinct_here ? 2 : 1, turns_done = 0;
    for (long i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        seconds += jobs[i].seconds;
        calls += jobs[i].calls;
        turns_done += jobs[i].turns;
    }
    char line[128];
    print(line, snprintf(line, sizeof line, "%.1f ns a call, %ld calls\n", seconds * 1e9 / turns_done, calls));
    end(argc > 6 ? argv[6] : "return");
    return 0;
}
