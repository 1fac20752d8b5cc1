/* A fault in the program's own mapping, and a SIGBUS that another process sends, end the program or reach its
 * handler as in an untraced run. The program sees only its own handler. */
//= among: open=1
//= case: by its handler
//= run: handler
//= case: once
//= run: once
//= exit: signal 7
//= endings: killed
//= leftovers: yes
//= case: sent to its handler
//= run: sent
//= case: by its end
//= run: fault
//= exit: signal 7
//= endings: killed
//= leftovers: yes
//= case: sent
//= run: kill
//= exit: signal 7
//= endings: killed
//= leftovers: yes
//= case: ignored
//= run: ignored
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "expect.h"

static char *volatile memory;
static sigjmp_buf back;
static volatile int seen;

static void with_facts(int signal, siginfo_t *info, void *context) {
    seen += signal == SIGBUS && context && (char *)info->si_addr == memory;
    siglongjmp(back, 1);
}

typedef void (*Handler)(int);
Handler bsd_signal(int, Handler), ssignal(int, Handler), sysv_signal(int, Handler), __sysv_signal(int, Handler);

static void plain(int signal) { seen += signal == SIGBUS; }

int main(int argc, char **argv) {
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    struct sigaction action, old;
    EXPECT(argc > 1 && sigaction(SIGBUS, NULL, &old) == 0 && old.sa_handler == SIG_DFL && old.sa_flags == 0);
    EXPECT(ftruncate(fd, 4096) == 0);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    EXPECT(memory != MAP_FAILED && ftruncate(fd, 0) == 0);
    if (strcmp(argv[1], "fault") == 0) *memory = 1;
    if (strcmp(argv[1], "kill") == 0) kill(getpid(), SIGBUS);
    if (strcmp(argv[1], "ignored") == 0) {
        EXPECT(signal(SIGBUS, SIG_IGN) == SIG_DFL && raise(SIGBUS) == 0 && signal(SIGBUS, plain) == SIG_IGN);
        EXPECT(raise(SIGBUS) == 0 && seen == 1);
        return PASSED;
    }
    if (strcmp(argv[1], "sent") == 0) {
        EXPECT(signal(SIGBUS, plain) == SIG_DFL && signal(SIGBUS, plain) == plain);
        EXPECT(raise(SIGBUS) == 0 && raise(SIGBUS) == 0 && seen == 2);
        EXPECT(bsd_signal(SIGBUS, SIG_DFL) == plain && ssignal(SIGBUS, plain) == SIG_DFL);
        EXPECT(sysv_signal(SIGBUS, plain) == plain && raise(SIGBUS) == 0 && seen == 3);
        EXPECT(__sysv_signal(SIGBUS, plain) == SIG_DFL && raise(SIGBUS) == 0 && seen == 4);
        return PASSED;
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = with_facts;
    action.sa_flags = SA_SIGINFO | (strcmp(argv[1], "once") == 0 ? SA_RESETHAND : 0);
    sigaddset(&action.sa_mask, SIGUSR1);
    EXPECT(sigaction(SIGBUS, &action, &old) == 0 && old.sa_handler == SIG_DFL);
    EXPECT(sigaction(SIGBUS, NULL, &old) == 0 && old.sa_sigaction == with_facts && sigismember(&old.sa_mask, SIGUSR1));
    for (int i = 0; i < 2; i++) {
        if (sigsetjmp(back, 1) == 0) *memory = 1;
    }
    EXPECT(seen == 2);
    return PASSED;
}
