/* The program of the crash fuzzer: processes whose threads make calls until they end in one of many ways. Shared memory that
 * outlives all processes contains the number of calls that each thread has started and finished. Everything else uses raw
 * system calls, which the tracer does not see.
 *
 * worker COUNTERS DATA SEED key=value ...      see `struct plan` */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 4096 };

static struct counters {
    uint64_t used;
    struct { uint64_t begun, done; } slots[SLOTS];
} *counters;

static struct plan {
    long threads, calls, forks, depth, files;
    long linger;       /* threads continue to work while the process ends */
    long after_us;     /* time until it exits or is killed */
    long least;        /* calls made before that, even if threads get a CPU late */
    long kill;         /* the signal, or 0 */
    long ending;       /* see `leave` */
    long drop;         /* privileges to drop: 1 user, 2 root directory, 3 both, 4 group and capabilities */
    long late;         /* threads that start after that */
    long damaged;      /* another process damages the trace, and this one waits for it */
    long raw;          /* children are created by raw system calls */
    long fill;         /* bytes used temporarily on the disk of the trace */
} plan;

static const char *data, *program;
static char **arguments;
static unsigned long seed;
static volatile int working, finished, dropped;

static __thread uint64_t state;
static __thread int slot = -1;

static uint64_t next(void) {
    uint64_t x = (state += 0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static void nap(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    while (syscall(SYS_nanosleep, &time, &time) && errno == EINTR) {}
}

static void take_slot(uint64_t own) {
    state = seed * 1000003 + own;
    slot = __atomic_fetch_add(&counters->used, 1, __ATOMIC_RELAXED);
    if (slot >= SLOTS) syscall(SYS_exit_group, 99);
}

#define COUNTED(call)                                                                          \
    ({                                                                                         \
        __atomic_store_n(&counters->slots[slot].begun, counters->slots[slot].begun + 1, __ATOMIC_SEQ_CST); \
        long result_ = (long)(call);                                                           \
        __atomic_store_n(&counters->slots[slot].done, counters->slots[slot].done + 1, __ATOMIC_SEQ_CST);   \
        result_;                                                                               \
    })

static void some_calls(int fd, int scratch) {
    char bytes[512], path[64];
    struct stat facts;
    switch (next() % 16) {
    case 0:
        COUNTED(lseek(fd, next() % 4096, SEEK_SET));
        COUNTED(read(fd, bytes, next() % 512));
        break;
    case 1: {
        int other = COUNTED(open(data, O_RDONLY));
        COUNTED(pread(other, bytes, 100, next() % 4096));
        COUNTED(close(other));
        break;
    }
    case 2:
        snprintf(path, sizeof path, "/nowhere/%lu", (unsigned long)(next() % plan.files));
        COUNTED(stat(path, &facts));
        break;
    case 3:
        COUNTED(pwrite(scratch, bytes, next() % 512, next() % 4096));
        break;
    case 4:
        COUNTED(close(COUNTED(dup(fd))));
        break;
    default:
        COUNTED(pread(fd, bytes, next() % 512, next() % 4096));
    }
}

static void *work(void *own) {
    take_slot((uint64_t)own);
    int fd = COUNTED(open(data, O_RDONLY)), scratch = COUNTED(open(data, O_WRONLY));
    for (long i = 0; (i < plan.calls && !finished) || plan.linger; i++) some_calls(fd, scratch);
    __atomic_fetch_sub(&working, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void give_up_rights(void) {
    if (plan.drop == 2 || plan.drop == 3) chroot("/proc");
    if (plan.drop == 4) {
        struct { uint32_t version; int pid; } head = {0x20080522, 0};
        uint32_t none[6] = {0};
        extern int capset(void *, const void *);
        setgid(65534);
        capset(&head, none);
    }
    if (plan.drop == 1 || plan.drop == 3) {
        setgid(65534);
        setuid(65534);
    }
    dropped = 1;
}

/* Uses space on the disk of the trace, and frees it again. */
static void fill(long bytes, long us) {
    static char zeros[4096];
    char path[512];
    snprintf(path, sizeof path, "%s/filler-%ld", getenv("FUZZ_DISK"), (long)syscall(SYS_getpid));
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0600);
    while (bytes > 0 && syscall(SYS_write, fd, zeros, sizeof zeros) > 0) bytes -= sizeof zeros;
    syscall(SYS_close, fd);
    nap(us);
    syscall(SYS_unlink, path);
}

static uint64_t made(void) {
    uint64_t sum = 0, used = __atomic_load_n(&counters->used, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < used; i++) sum += __atomic_load_n(&counters->slots[i].done, __ATOMIC_RELAXED);
    return sum;
}

static void await_damage(void) {
    while (syscall(SYS_access, getenv("FUZZ_DAMAGED"), F_OK)) nap(500);
}

static void *fate(void *unused) {
    if (plan.damaged) await_damage();
    if (plan.fill) {
        nap(plan.after_us / 4);
        fill(plan.fill, plan.after_us / 4);
        nap(plan.after_us / 2);
    } else {
        nap(plan.after_us);
    }
    while (made() < (uint64_t)plan.least) nap(200);
    if (plan.kill) syscall(SYS_kill, syscall(SYS_getpid), plan.kill);
    finished = 1;
    return NULL;
}

static void leave(void) {
    switch (plan.ending) {
    case 0: return;
    case 1: exit(0);
    case 2: _exit(0);
    case 3: quick_exit(0);
    case 4: syscall(SYS_exit_group, 0);
    case 5: abort();
    case 6: {
        char *again[] = {(char *)program, arguments[1], arguments[2], "7", "threads=1", "calls=100", "after_us=100000", NULL};
        COUNTED(execv(program, again));
    }
    case 7: pthread_exit(NULL);
    }
}

static void *leave_from_a_thread(void *unused) {
    take_slot(77);
    leave();
    exit(0);
}

static void run(long depth);

/* Creates a child without a function of the C library. */
static pid_t raw_fork(void) {
#ifdef __x86_64__
    long result;
    register long fifth __asm__("r8") = 0, fourth __asm__("r10") = 0;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(SYS_clone), "D"(SIGCHLD), "S"(0), "d"(0), "r"(fourth), "r"(fifth) : "rcx", "r11", "memory");
    return result;
#else
    return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static void have_children(long depth) {
    pid_t children[16];
    for (long i = 0; i < plan.forks; i++) {
        if (!plan.raw) counters->slots[slot].begun++;
        children[i] = plan.raw ? raw_fork() : fork();
        if (children[i] != 0) {
            if (!plan.raw) counters->slots[slot].done++;
        } else {
            seed = seed * 31 + i + 1;
            take_slot(1000 + i);
            /* Ends in another way, at another time. */
            plan.ending = next() % 5;
            plan.kill = next() % 3 ? 0 : SIGKILL;
            plan.after_us = 1 + next() % (plan.after_us * 2);
            run(depth - 1);
            leave();
            exit(0);
        }
    }
    if (plan.linger) return;
    for (long i = 0; i < plan.forks; i++)
        while (syscall(SYS_wait4, children[i], NULL, 0, NULL) < 0 && errno == EINTR) {}
}

static void start(void *(*body)(void *), void *own) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, body, own)) syscall(SYS_exit_group, 98);
}

static void run(long depth) {
    if (depth > 0 && plan.forks) have_children(depth);
    start(fate, NULL);
    working = plan.threads;
    for (long i = 0; i < plan.threads; i++) start(work, (void *)(i + 1));
    if (plan.drop) {
        nap(plan.after_us / 3);
        give_up_rights();
        __atomic_fetch_add(&working, plan.late, __ATOMIC_SEQ_CST);
        for (long i = 0; i < plan.late; i++) start(work, (void *)(100 + i));
    }
    while (!finished && (plan.linger || plan.kill || working)) nap(200);
    if (!plan.linger)
        while (working) nap(50);
}

int main(int argc, char **argv) {
    program = "/proc/self/exe";
    arguments = argv;
    data = argv[2];
    seed = strtoul(argv[3], NULL, 10);
    plan.threads = 1, plan.calls = 1000, plan.files = 1, plan.after_us = 1000;
    struct { const char *name; long *place; } keys[] = {
        {"threads", &plan.threads}, {"calls", &plan.calls}, {"forks", &plan.forks}, {"depth", &plan.depth},
        {"files", &plan.files}, {"linger", &plan.linger}, {"after_us", &plan.after_us}, {"least", &plan.least}, {"kill", &plan.kill},
        {"ending", &plan.ending}, {"drop", &plan.drop}, {"late", &plan.late}, {"fill", &plan.fill},
        {"damaged", &plan.damaged}, {"raw", &plan.raw},
    };
    for (int i = 4; i < argc; i++)
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            size_t length = strlen(keys[k].name);
            if (!strncmp(argv[i], keys[k].name, length) && argv[i][length] == '=') *keys[k].place = atol(argv[i] + length + 1);
        }
    int fd = syscall(SYS_openat, AT_FDCWD, argv[1], O_RDWR, 0);
    counters = (void *)syscall(SYS_mmap, NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (counters == MAP_FAILED) return 97;
    take_slot(0);
    COUNTED(access(data, R_OK));
    run(plan.depth);
    if (plan.ending == 8) {
        plan.ending = next() % 4;
        start(leave_from_a_thread, NULL);
        for (;;) nap(1000000);
    }
    leave();
    return 0;
}
