/* A trainer and its reader in C: `ring HOW WHAT STEPS STEP_MS FILES...`. One thread fills a ring of 4 buffers, the first
   thread trains. Prints what its own clocks say as one line of JSON.

   HOW the training waits: `condition`; `process`, a condition that it shares with the reader, which is a process; `semaphore`; `inline`, which spins, then calls futex by its own instruction;
   `syscall`, which calls futex by the function syscall; `eventfd`.
   WHAT the reader does with the files: `read`, `decode`, or `map`, which touches random pages; `uring`, which reads through
   an io_uring ring, or `uring-decode`, which keeps 4 reads in flight there and decodes: each follows a timer of 20 ms in the
   kernel, the slow disk. With `eventfd`, each step also
   takes a batch from a second loader, which is always far ahead. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 4, SIZE = 64 << 10 };

struct channel {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    sem_t full, free;
    atomic_int made, taken;
    int full_fd, free_fd;
    int is_fast;
    pthread_t reader;
    pid_t process;
};

static const char *how, *what;
static char **files;
static int number, steps;
static struct clocks {
    double in_storage, in_faults, on_cpu, busy;
} *clocks;

static int waits_for_condition(void) { return strcmp(how, "condition") == 0 || strcmp(how, "process") == 0; }

static double seconds(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void rest_ms(double ms) {
    struct timespec time = {ms / 1000, (long)(ms * 1e6) % 1000000000};
    nanosleep(&time, NULL);
}

static void decode_ms(double ms) {
    double end = seconds(CLOCK_THREAD_CPUTIME_ID) + ms / 1000;
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

static long futex_inline(atomic_int *at, int op, int value) {
    long result;
    register long r10 __asm__("r10") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_futex), "D"(at), "S"(op), "d"(value), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

/* Waits until the counter is more than `passed`. */
static void wait_past(atomic_int *counter, int passed) {
    for (int spin = 0; spin < 2000; spin++)
        if (atomic_load(counter) > passed)
            return;
    for (int seen; (seen = atomic_load(counter)) <= passed;) {
        if (strcmp(how, "inline") == 0)
            futex_inline(counter, FUTEX_WAIT, seen);
        else
            syscall(SYS_futex, counter, FUTEX_WAIT, seen, NULL, NULL, 0);
    }
}

static void count(atomic_int *counter) {
    atomic_fetch_add(counter, 1);
    if (strcmp(how, "inline") == 0)
        futex_inline(counter, FUTEX_WAKE, 1);
    else
        syscall(SYS_futex, counter, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void take_token(int fd) {
    uint64_t one;
    while (read(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void give_token(int fd) {
    uint64_t one = 1;
    if (write(fd, &one, sizeof one) < 0)
        perror("eventfd");
}

/* One side waits for `full` and gives `free`, the other the reverse. */
static void acquire(struct channel *channel, int is_full, int index) {
    if (waits_for_condition()) {
        pthread_mutex_lock(&channel->mutex);
        while (is_full ? channel->made <= index : channel->taken + ROOM <= index)
            pthread_cond_wait(&channel->changed, &channel->mutex);
        pthread_mutex_unlock(&channel->mutex);
    } else if (strcmp(how, "semaphore") == 0) {
        while (sem_wait(is_full ? &channel->full : &channel->free) != 0) {
        }
    } else if (strcmp(how, "eventfd") == 0) {
        take_token(is_full ? channel->full_fd : channel->free_fd);
    } else if (is_full) {
        wait_past(&channel->made, index);
    } else {
        wait_past(&channel->taken, index - ROOM);
    }
}

static void release(struct channel *channel, int is_full) {
    if (waits_for_condition()) {
        pthread_mutex_lock(&channel->mutex);
        atomic_fetch_add(is_full ? &channel->made : &channel->taken, 1);
        pthread_cond_broadcast(&channel->changed);
        pthread_mutex_unlock(&channel->mutex);
    } else if (strcmp(how, "semaphore") == 0) {
        sem_post(is_full ? &channel->full : &channel->free);
    } else if (strcmp(how, "eventfd") == 0) {
        give_token(is_full ? channel->full_fd : channel->free_fd);
    } else {
        count(is_full ? &channel->made : &channel->taken);
    }
}

static long touch(const char *path) {
    static char *pages;
    static size_t size;
    static unsigned long position = 1;
    if (!pages) {
        int fd = open(path, O_RDONLY);
        struct stat meta;
        fstat(fd, &meta);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        size = meta.st_size;
        pages = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        madvise(pages, size, MADV_RANDOM);
        close(fd);
    }
    long sum = 0;
    for (int page = 0; page < 400; page++) {
        position = position * 6364136223846793005ul + 1442695040888963407ul;
        sum += pages[(position >> 20) % size];
    }
    return sum;
}

/* A ring of 8 requests: a timer and a read in each pair. */
static struct {
    int fd;
    _Atomic unsigned *tail, *ready, *taken;
    unsigned *array, submitted, results;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *done;
} ring;

static char ring_buffers[ROOM][SIZE];

static void open_ring(void) {
    struct io_uring_params p = {0};
    ring.fd = syscall(SYS_io_uring_setup, 2 * ROOM, &p);
    if (ring.fd < 0) {
        perror("io_uring");
        exit(3);
    }
    char *queue = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof *ring.done + p.sq_entries * 4 + 4096, PROT_READ | PROT_WRITE,
                       MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
    ring.requests = mmap(NULL, p.sq_entries * sizeof *ring.requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, IORING_OFF_SQES);
    ring.tail = (void *)(queue + p.sq_off.tail), ring.array = (void *)(queue + p.sq_off.array);
    ring.ready = (void *)(queue + p.cq_off.tail), ring.taken = (void *)(queue + p.cq_off.head);
    ring.done = (void *)(queue + p.cq_off.cqes), ring.results = p.cq_entries;
}

static void submit_read(const char *path) {
    static struct __kernel_timespec delay = {.tv_nsec = 20000000};
    unsigned at = ring.submitted % ROOM;
    int fd = open(path, O_RDONLY);
    ring.requests[2 * at] = (struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .flags = IOSQE_IO_HARDLINK, .fd = -1,
                                                  .addr = (unsigned long)&delay, .len = 1, .user_data = -1};
    ring.requests[2 * at + 1] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = fd, .user_data = fd, .len = SIZE,
                                                      .addr = (unsigned long)ring_buffers[at]};
    ring.array[2 * at] = 2 * at, ring.array[2 * at + 1] = 2 * at + 1;
    atomic_store(ring.tail, *ring.tail + 2);
    ring.submitted++;
    syscall(SYS_io_uring_enter, ring.fd, 2, 0, 0, NULL, 0);
}

/* Waits for a read; results of timers come before. */
static void await_read(void) {
    for (;;) {
        while (atomic_load(ring.ready) == *ring.taken)
            syscall(SYS_io_uring_enter, ring.fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        struct io_uring_cqe result = ring.done[*ring.taken % ring.results];
        atomic_store(ring.taken, *ring.taken + 1);
        if (result.user_data != (unsigned long)-1) {
            if (result.res != SIZE)
                fprintf(stderr, "read: %d\n", result.res);
            close(result.user_data);
            return;
        }
    }
}

static void read_by_ring(int index, int ahead) {
    if (!ring.fd)
        open_ring();
    while (ring.submitted < (unsigned)(index + ahead) && ring.submitted < (unsigned)steps)
        submit_read(files[ring.submitted % number]);
    await_read();
}

static void *reader(void *argument) {
    struct channel *channel = argument;
    static char buffers[2][SIZE];
    for (int index = 0; index < steps; index++) {
        acquire(channel, 0, index);
        const char *path = files[index % number];
        double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID), done = start;
        if (channel->is_fast) {
            release(channel, 1);
            continue;
        }
        if (strcmp(what, "map") == 0) {
            if (touch(path) == 42)
                puts("");
        } else if (strncmp(what, "uring", 5) == 0) {
            read_by_ring(index, strcmp(what, "uring") == 0 ? 1 : ROOM);
        } else {
            int fd = open(path, O_RDONLY);
            if (pread(fd, buffers[0], SIZE, 0) < 0)
                perror(path);
            close(fd);
        }
        done = seconds(CLOCK_MONOTONIC);
        double cpu_then = seconds(CLOCK_THREAD_CPUTIME_ID);
        *(strcmp(what, "map") == 0 ? &clocks->in_faults : &clocks->in_storage) += done - start - (cpu_then - cpu);
        if (strstr(what, "decode"))
            decode_ms(25);
        clocks->on_cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        clocks->busy += seconds(CLOCK_MONOTONIC) - start;
        release(channel, 1);
    }
    return NULL;
}

static void open_channel(struct channel *channel) {
    int is_process = strcmp(how, "process") == 0;
    pthread_mutexattr_t mutex;
    pthread_condattr_t changed;
    pthread_mutexattr_init(&mutex), pthread_condattr_init(&changed);
    pthread_mutexattr_setpshared(&mutex, is_process), pthread_condattr_setpshared(&changed, is_process);
    pthread_mutex_init(&channel->mutex, &mutex);
    pthread_cond_init(&channel->changed, &changed);
    sem_init(&channel->full, 0, 0);
    sem_init(&channel->free, 0, ROOM);
    channel->full_fd = eventfd(0, EFD_SEMAPHORE);
    channel->free_fd = eventfd(ROOM, EFD_SEMAPHORE);
    if (!is_process) {
        pthread_create(&channel->reader, NULL, reader, channel);
    } else if ((channel->process = fork()) == 0) {
        reader(channel);
        exit(0);
    }
}

static void *shared_memory(size_t size) { return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); }

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    how = argv[1], what = argv[2], steps = atoi(argv[3]), files = argv + 5, number = argc - 5;
    double step_ms = atof(argv[4]), waited = 0, start = seconds(CLOCK_MONOTONIC);
    struct channel *channels = shared_memory(2 * sizeof *channels);
    clocks = shared_memory(sizeof *clocks);
    int loaders = strcmp(how, "eventfd") == 0 ? 2 : 1;
    channels[1].is_fast = 1;
    for (int loader = 0; loader < loaders; loader++)
        open_channel(&channels[loader]);
    for (int index = 0; index < steps; index++) {
        double from = seconds(CLOCK_MONOTONIC);
        for (int loader = 0; loader < loaders; loader++) {
            acquire(&channels[loader], 1, index);
            release(&channels[loader], 0);
        }
        waited += seconds(CLOCK_MONOTONIC) - from;
        rest_ms(step_ms);
    }
    double trained = seconds(CLOCK_MONOTONIC) - start, scale;
    for (int loader = 0; loader < loaders; loader++)
        if (!channels[loader].process)
            pthread_join(channels[loader].reader, NULL);
        else
            waitpid(channels[loader].process, NULL, 0);
    scale = clocks->busy > 0 ? waited / clocks->busy : 0;
    double rest = clocks->busy - clocks->in_storage - clocks->in_faults - clocks->on_cpu;
    printf("{\"trained_s\": %.3f, \"waited_s\": %.3f, \"causes\": {\"storage\": %.3f, \"page-faults\": %.3f, \"cpu\": %.3f, "
           "\"no-cpu\": %.3f}}\n",
           trained, waited, clocks->in_storage * scale, clocks->in_faults * scale, clocks->on_cpu * scale, rest > 0 ? rest * scale : 0);
    return 0;
}
