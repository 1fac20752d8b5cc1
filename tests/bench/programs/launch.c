/* launch: runs one command and reports its cost.
 *   launch REPORT [NAME=VALUE...] -- COMMAND [ARGUMENT...]
 *
 * Writes to REPORT: status, wall seconds, CPU seconds (user and system, with all children waited for), peak memory in KiB of
 * the largest process. This is a small separate program, because the kernel counts the memory of a forking process in the peak
 * of its children: from a Python script every command takes 15 MB at least. The variables are set only for the command, so a
 * library that is preloaded into it is not preloaded here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

static void run(char **command, char **variables, char **end) {
    for (; variables < end; variables++) putenv(*variables);
    execvp(command[0], command);
    fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
    _exit(127);
}

int main(int argc, char **argv) {
    int split = 2;
    while (split < argc && strcmp(argv[split], "--")) split++;
    if (split + 1 >= argc) {
        fprintf(stderr, "usage: launch REPORT [NAME=VALUE...] -- COMMAND [ARGUMENT...]\n");
        return 2;
    }
    double began = now();
    pid_t child = fork();
    if (child == 0) run(argv + split + 1, argv + 2, argv + split);
    int status = 0;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
        perror("launch");
        return 1;
    }
    double wall = now() - began;
    FILE *report = fopen(argv[1], "w");
    if (!report) {
        perror(argv[1]);
        return 1;
    }
    fprintf(report, "%d %.6f %.6f %ld\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), wall,
            seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss);
    return fclose(report) ? 1 : 0;
}
