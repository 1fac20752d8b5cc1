/* Measures the cost of a span in C: `spans site|name` prints nanoseconds of CPU time per span, the minimum of many rounds, and the
 * lower limit for any recorded span: two readings of the clock, and storing a record of 48 bytes. */
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

#ifdef __x86_64__
static unsigned long long clock_reading(void) { return __builtin_ia32_rdtsc(); }
#else
static unsigned long long clock_reading(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}
#endif

/* Records are stored one after another, as in a ring. */
static void two_readings_and_a_record(void) {
    struct record { unsigned long long words[6]; };
    static struct record ring[4096];
    static unsigned next;
    unsigned long long began = clock_reading(), ended = clock_reading();
    ring[next++ % 4096] = (struct record){{began, ended - began, 3, 4, 5, next}};
    __asm__ volatile("" ::"r"(ring) : "memory");
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
    double floor = least(nothing), span = least(is_site ? at_site : by_name) - floor;
    double bound = least(two_readings_and_a_record) - floor;
    printf("%.1f ns a span\n%.1f ns two readings and a record, a span takes %.2f of them\n", span, bound, span / bound);
    return 0;
}
