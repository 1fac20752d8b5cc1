/* A program that uses a GPU of AMD: it starts ROCm, and its device works as the first argument says, if rocprofiler-sdk is there. */
#include "../../../tracer/include/dliotrace.h"
#include "sdk.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(yes) do { if (!(yes)) return printf("line %d: %s\n", __LINE__, #yes), 1; } while (0)

enum { MS = 1000000 };

int rocprofiler_register_library_api_table(const char *, void *, uint32_t, void **, uint64_t, uint64_t *);

static uint64_t (*now)(void);
static void (*kernel)(uint64_t, int, unsigned, uint64_t, uint64_t);
static void (*copy)(int, int, int, uint64_t, uint64_t, uint64_t);
static void (*other)(void), (*forbid)(void);

static void pause_ms(int ms) {
    struct timespec time = {0, ms * 1000000L};
    nanosleep(&time, NULL);
}

/* Work within the span `nanosleep` of the host. */
static void work(void) {
    uint64_t start = now();
    pause_ms(40);
    kernel(1, 1, 4, start + 10 * MS, start + 30 * MS);
    kernel(5000, 2, 5, start + 5 * MS, start + 35 * MS);
    kernel(77, 1, 4, start + 1, start + 2);
    copy(2, 0, 1, 4096, start + 1 * MS, start + 3 * MS);
    copy(3, 2, 0, 8192, start + 1 * MS, start + 3 * MS);
    copy(4, 1, 2, 512, start + 1 * MS, start + 3 * MS);
    copy(99, 0, 0, 1, start + 1 * MS, start + 3 * MS);
}

/* A training whose GPUs take turns: in each step one works for 5 ms, then the other one for 4 ms. */
static void take_turns(void) {
    for (int step = 0; step < 20; step++) {
        dlio_span fetch = dlio_begin("fetch", "data_loader");
        pause_ms(1);
        dlio_end(&fetch);
        uint64_t start = now();
        pause_ms(10);
        kernel(1, 1, 4, start, start + 5 * MS);
        kernel(5000, 2, 5, start + 5 * MS, start + 9 * MS);
        kernel(5000, 2, 6, start + 6 * MS, start + 9 * MS);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t id = 0;
    void *tables[1] = {NULL};
    char byte;
    FILE *file = fopen("/etc/passwd", "r");
    EXPECT(file && fread(&byte, 1, 1, file) == 1 && fclose(file) == 0);
    rocprofiler_register_library_api_table("hip", NULL, 70000, tables, 1, &id);
    now = dlsym(RTLD_DEFAULT, "fake_now"), kernel = dlsym(RTLD_DEFAULT, "fake_kernel"), copy = dlsym(RTLD_DEFAULT, "fake_copy");
    other = dlsym(RTLD_DEFAULT, "fake_other"), forbid = dlsym(RTLD_DEFAULT, "fake_forbid");
    if (!now) return 42;
    if (!strcmp(what, "work")) {
        work();
    } else if (!strcmp(what, "turns")) {
        take_turns();
    } else if (!strcmp(what, "many")) {
        uint64_t start = now();
        pause_ms(5);
        for (int at = 0; at < 2500; at++) kernel(1, 1, 4, start + at, start + at + 1);
    } else if (!strcmp(what, "invalid")) {
        uint64_t start = now();
        pause_ms(5);
        other();
        kernel(1, 1, 4, start, start + 1), kernel(1, 1, 4, 0, start), kernel(1, 1, 4, start, start - 1);
        kernel(1, 1, 4, start, start + 3600000ull * MS);
    } else if (!strcmp(what, "fork")) {
        work();
        pid_t child = fork();
        int status;
        if (child == 0) {
            forbid();
            if (argc > 2) execl(argv[0], argv[0], "work", NULL);
            exit(42);
        }
        waitpid(child, &status, 0);
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    } else if (!strcmp(what, "_exit")) {
        work();
        _exit(42);
    }
    return 42;
}
