/* What a span costs in C: `spans site|name` prints nanoseconds of processor time a span, the least of many rounds. */
#define _GNU_SOURCE
#include "dliotrace.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 200, SPANS = 10000 };

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void nothing(void) { __asm__ volatile(""); }

static void by_name(void) {
    dlio_span span = dlio_begin("step", "compute");
    dlio_end(&span);
}

static void at_site(void) {
    static dlio_site site = DLIO_SITE("step", "compute");
    dlio_span span = dlio_begin_at(&site);
    dlio_end(&span);
}

static double least(void (*work)(void)) {
    double least = 1e18;
    for (int round = 0; round < ROUNDS; round++) {
        double began = now_ns();
        for (int i = 0; i < SPANS; i++) work();
        double taken = (now_ns() - began) / SPANS;
        if (taken < least) least = taken;
    }
    return least;
}

int main(int argc, char **argv) {
    int is_site = argc == 2 && !strcmp(argv[1], "site");
    printf("%.1f ns a span\n", least(is_site ? at_site : by_name) - least(nothing));
    return 0;
}
