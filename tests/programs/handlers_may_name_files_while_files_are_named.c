/* A timer's handler names its own files while the program is naming others, also while the first ring is created and
 * while a chunk has space for one more name. */
//= among: stat=300000 access=3000
//= files: 303000
//= formats: native
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include "expect.h"

enum { NAMES = 300000, IN_HANDLER = 3000 };
static volatile int handled;

static char *spell(char *end, int number) {
    do *--end = '0' + number % 10;
    while (number /= 10);
    return end;
}

static void handler(int signal) {
    char path[40] = "/no/such/handler-", *digits = path + 39;
    (void)signal;
    if (handled == IN_HANDLER) return;
    digits = spell(digits, handled++);
    memmove(path + 17, digits, path + 40 - digits);
    access(path, R_OK);
}

int main(void) {
    struct stat found;
    char path[40];
    EXPECT(signal(SIGALRM, handler) != SIG_ERR);
    struct itimerval often = {{0, 50}, {0, 50}};
    EXPECT(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < NAMES; i++) {
        sprintf(path, "/no/such/file-%d", i);
        EXPECT(stat(path, &found) == -1);
    }
    while (handled < IN_HANDLER) raise(SIGALRM);
    return PASSED;
}
