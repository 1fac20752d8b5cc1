/* Makes requests through rings of liburing and prints how many succeeded and failed, and their bytes, by name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4096
#define BLOCKS 64
#define CHECK(is) do { if (!(is)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #is, errno); exit(1); } } while (0)

static struct { const char *name; _Atomic long count, bytes; } counts[40];

static void count(const char *name, int result) {
    int i = 0;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    while (counts[i].name && strcmp(counts[i].name, name)) i++;
    counts[i].name = name;
    pthread_mutex_unlock(&lock);
    counts[i].count++;
    counts[i].bytes += result > 0 ? result : 0;
}

static void ring_of(struct io_uring *ring, unsigned entries, unsigned flags) {
    int ret = io_uring_queue_init(entries, ring, flags);
    if (ret == -EPERM || ret == -ENOSYS || (ret == -EINVAL && flags)) exit(77);
    CHECK(ret == 0);
}

/* Takes one result. */
static int result(struct io_uring *ring, const char *name) {
    struct io_uring_cqe *cqe;
    int ret;
    while ((ret = io_uring_wait_cqe(ring, &cqe)) == -EINTR) {}
    CHECK(ret == 0);
    int res = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    count(name, res);
    return res;
}

static int one(struct io_uring *ring, const char *name) {
    CHECK(io_uring_submit(ring) == 1);
    return result(ring, name);
}

static void check_block(const char *bytes, long block) {
    for (int i = 0; i < SIZE; i += 512) CHECK(*(const long *)(bytes + i) == block);
}

static void make_data(void) {
    char bytes[SIZE];
    int fd = open("data", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (long block = 0; block < BLOCKS; block++) {
        for (int i = 0; i < SIZE; i += 512) *(long *)(bytes + i) = block;
        CHECK(write(fd, bytes, SIZE) == SIZE);
    }
    close(fd);
}

/* Many requests in flight, with one number for all of them or one for each. */
static void reads(struct io_uring *ring, int fd, int rounds, int is_same, pthread_mutex_t *lock) {
    char *bytes = malloc(8 * SIZE);
    for (int round = 0; round < rounds; round++) {
        if (lock) pthread_mutex_lock(lock);
        for (long i = 0; i < 8; i++) {
            long block = (round * 8 + i * 5) % BLOCKS;
            struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
            CHECK(sqe);
            io_uring_prep_read(sqe, fd, bytes + i * SIZE, SIZE, block * SIZE);
            io_uring_sqe_set_data64(sqe, is_same ? 7 : (unsigned long)(bytes + i));
        }
        CHECK(io_uring_submit_and_wait(ring, 8) == 8);
        for (int i = 0; i < 8; i++) CHECK(result(ring, "io_uring_read") == SIZE);
        if (lock) pthread_mutex_unlock(lock);
        for (long i = 0; i < 8; i++) check_block(bytes + i * SIZE, (round * 8 + i * 5) % BLOCKS);
    }
    free(bytes);
}

static void kinds(void) {
    struct io_uring ring;
    struct statx status;
    struct iovec parts[2];
    char bytes[3 * SIZE];
    ring_of(&ring, 8, 0);
    memset(bytes, 1, sizeof bytes);
    io_uring_prep_mkdirat(io_uring_get_sqe(&ring), AT_FDCWD, "made", 0700);
    CHECK(one(&ring, "io_uring_mkdirat") == 0);
    io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, "made/file", O_CREAT | O_RDWR, 0600);
    int fd = one(&ring, "io_uring_openat");
    CHECK(fd >= 0);
    io_uring_prep_write(io_uring_get_sqe(&ring), fd, bytes, SIZE, 0);
    CHECK(one(&ring, "io_uring_write") == SIZE);
    parts[0] = (struct iovec){bytes, 1000}, parts[1] = (struct iovec){bytes + 5000, 2000};
    io_uring_prep_writev(io_uring_get_sqe(&ring), fd, parts, 2, SIZE);
    CHECK(one(&ring, "io_uring_writev") == 3000);
    io_uring_prep_readv(io_uring_get_sqe(&ring), fd, parts, 2, 10);
    CHECK(one(&ring, "io_uring_readv") == 3000);
    io_uring_prep_fsync(io_uring_get_sqe(&ring), fd, 0);
    CHECK(one(&ring, "io_uring_fsync") == 0);
    io_uring_prep_statx(io_uring_get_sqe(&ring), AT_FDCWD, "made/file", 0, STATX_SIZE, &status);
    CHECK(one(&ring, "io_uring_statx") == 0 && status.stx_size == SIZE + 3000);
    io_uring_prep_fallocate(io_uring_get_sqe(&ring), fd, 0, 0, 20000);
    one(&ring, "io_uring_fallocate");
    // At the end of the file, and after it; from its own position; from no file.
    io_uring_prep_fsync(io_uring_get_sqe(&ring), fd, IORING_FSYNC_DATASYNC);
    CHECK(one(&ring, "io_uring_fsync") == 0);
    io_uring_prep_read(io_uring_get_sqe(&ring), fd, bytes, SIZE, 1 << 20);
    CHECK(one(&ring, "io_uring_read") == 0);
    io_uring_prep_read(io_uring_get_sqe(&ring), fd, bytes, 100, -1);
    CHECK(one(&ring, "io_uring_read") == 100);
    io_uring_prep_read(io_uring_get_sqe(&ring), 1000, bytes, 100, 0);
    CHECK(one(&ring, "io_uring_read") == -EBADF);
    io_uring_prep_readv(io_uring_get_sqe(&ring), fd, (void *)16, 3, 0);
    CHECK(one(&ring, "io_uring_readv") == -EFAULT);
    io_uring_prep_openat(io_uring_get_sqe(&ring), AT_FDCWD, (void *)16, 0, 0);
    CHECK(one(&ring, "io_uring_openat") == -EFAULT);
    // Linked: the second is cancelled, because the first is short.
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    io_uring_prep_read(sqe, fd, bytes, 100, 1 << 20);
    io_uring_sqe_set_flags(sqe, IOSQE_IO_LINK);
    io_uring_prep_write(io_uring_get_sqe(&ring), fd, bytes, 100, 0);
    CHECK(io_uring_submit(&ring) == 2);
    CHECK(result(&ring, "io_uring_read") == 0 && result(&ring, "io_uring_write") == -ECANCELED);
    // Neither is I/O.
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    CHECK(one(&ring, "nop") == 0);
    io_uring_prep_renameat(io_uring_get_sqe(&ring), AT_FDCWD, "made/file", AT_FDCWD, "made/other", 0);
    CHECK(one(&ring, "io_uring_renameat") == 0);
    io_uring_prep_close(io_uring_get_sqe(&ring), fd);
    CHECK(one(&ring, "io_uring_close") == 0);
    io_uring_prep_unlinkat(io_uring_get_sqe(&ring), AT_FDCWD, "made/other", 0);
    CHECK(one(&ring, "io_uring_unlinkat") == 0);
    io_uring_queue_exit(&ring);
}

static void registered(void) {
    struct io_uring ring;
    char *bytes = aligned_alloc(SIZE, 4 * SIZE);
    struct iovec buffers[2] = {{bytes, 2 * SIZE}, {bytes + 2 * SIZE, 2 * SIZE}};
    int files[4] = {open("data", O_RDONLY), open("other", O_CREAT | O_RDWR, 0600), -1, -1};
    ring_of(&ring, 8, 0);
    CHECK(io_uring_register_files(&ring, files, 4) == 0);
    CHECK(io_uring_register_buffers(&ring, buffers, 2) == 0);
    for (int block = 0; block < 10; block++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
        io_uring_prep_read_fixed(sqe, 0, bytes, SIZE, block * SIZE, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        CHECK(one(&ring, "io_uring_read_fixed") == SIZE);
        check_block(bytes, block);
        sqe = io_uring_get_sqe(&ring);
        io_uring_prep_write_fixed(sqe, 1, bytes, SIZE, block * SIZE, 0);
        sqe->flags |= IOSQE_FIXED_FILE;
        CHECK(one(&ring, "io_uring_write_fixed") == SIZE);
    }
    // Another file in a slot; its descriptor may be closed.
    int third = open("third", O_CREAT | O_RDWR, 0600);
    CHECK(io_uring_register_files_update(&ring, 2, &third, 1) == 1);
    close(third);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    io_uring_prep_write(sqe, 2, bytes, 300, 0);
    sqe->flags |= IOSQE_FIXED_FILE;
    CHECK(one(&ring, "io_uring_write") == 300);
    // A file that is opened into a slot and never has a descriptor.
    sqe = io_uring_get_sqe(&ring);
    io_uring_prep_openat_direct(sqe, AT_FDCWD, "direct", O_CREAT | O_RDWR, 0600, 3);
    CHECK(one(&ring, "io_uring_openat") == 0);
    sqe = io_uring_get_sqe(&ring);
    io_uring_prep_write(sqe, 3, bytes, 700, 0);
    sqe->flags |= IOSQE_FIXED_FILE;
    CHECK(one(&ring, "io_uring_write") == 700);
    io_uring_prep_close_direct(io_uring_get_sqe(&ring), 3);
    CHECK(one(&ring, "io_uring_close") == 0);
    CHECK(io_uring_unregister_files(&ring) == 0);
    io_uring_queue_exit(&ring);
}

/* Every function of the library that submits, waits or registers files. */
static void functions(void) {
    struct io_uring ring;
    struct io_uring_cqe *cqe, *several[4];
    struct __kernel_timespec second = {1, 0};
    char bytes[SIZE];
    int fd = open("data", O_RDONLY), none = -1;
    __u64 tag = 0;
    ring_of(&ring, 4, 0);
#define READ() io_uring_prep_read(io_uring_get_sqe(&ring), fd, bytes, 100, 0)
#define SEEN() do { count("io_uring_read", cqe->res); CHECK(cqe->res == 100); io_uring_cqe_seen(&ring, cqe); } while (0)
    READ();
    CHECK(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &second, NULL) >= 0);
    SEEN();
    READ();
    CHECK(io_uring_submit(&ring) == 1 && io_uring_wait_cqe_timeout(&ring, &cqe, &second) == 0);
    SEEN();
    READ();
    CHECK(io_uring_submit(&ring) == 1 && io_uring_wait_cqes(&ring, &cqe, 1, &second, NULL) == 0);
    SEEN();
    READ();
    CHECK(io_uring_submit_and_get_events(&ring) == 1 && io_uring_get_events(&ring) >= 0);
    CHECK(__io_uring_get_cqe(&ring, &cqe, 0, 1, NULL) == 0);
    SEEN();
    READ();
    CHECK(io_uring_submit_and_wait(&ring, 1) == 1 && io_uring_peek_batch_cqe(&ring, several, 4) == 1);
    cqe = several[0];
    SEEN();
    READ();
    CHECK(io_uring_submit(&ring) == 1);
    CHECK(io_uring_enter(ring.ring_fd, 0, 1, IORING_ENTER_GETEVENTS, NULL) == 0 && io_uring_peek_cqe(&ring, &cqe) == 0);
    SEEN();
    CHECK(io_uring_enter2(ring.ring_fd, 0, 0, 0, NULL, 0) == 0);
    __io_uring_sqring_wait(&ring);
#ifdef IO_URING_VERSION_MAJOR
    if (IO_URING_VERSION_MAJOR * 100 + IO_URING_VERSION_MINOR >= 208) {
        int io_uring_submit_and_wait_min_timeout(struct io_uring *, struct io_uring_cqe **, unsigned, struct __kernel_timespec *,
                                                 unsigned, sigset_t *) __attribute__((weak));
        int io_uring_submit_and_wait_reg(struct io_uring *, struct io_uring_cqe **, unsigned, int) __attribute__((weak));
        READ();
        CHECK(io_uring_submit_and_wait_min_timeout(&ring, &cqe, 1, &second, 0, NULL) >= 0);
        SEEN();
        CHECK(io_uring_submit_and_wait_reg(&ring, &cqe, 0, 0) < 0);
    }
#endif
    CHECK(io_uring_register_files_sparse(&ring, 4) == 0);
    CHECK(io_uring_register_files_update_tag(&ring, 1, &fd, &tag, 1) == 1);
    READ();
    // In the slot of the descriptor that was given.
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & (*ring.sq.kring_entries - 1)].fd = 1;
    ring.sq.sqes[(ring.sq.sqe_tail - 1) & (*ring.sq.kring_entries - 1)].flags = IOSQE_FIXED_FILE;
    CHECK(one(&ring, "io_uring_read") == 100);
    CHECK(io_uring_unregister_files(&ring) == 0);
    CHECK(io_uring_register_files_tags(&ring, &none, &tag, 1) == 0 && io_uring_unregister_files(&ring) == 0);
    CHECK(io_uring_register(ring.ring_fd, IORING_REGISTER_FILES, &fd, 1) == 0);
    struct io_uring_params params = {0};
    int other = io_uring_setup(4, &params);
    CHECK(other >= 0 && close(other) == 0);
    io_uring_queue_exit(&ring);
}

/* Takes results without entering the kernel. */
static void peeks(unsigned flags) {
    struct io_uring ring;
    char *bytes = malloc(SIZE);
    int fd = open("data", O_RDONLY);
    ring_of(&ring, 4, flags);
    for (int block = 0; block < BLOCKS; block++) {
        struct io_uring_cqe *cqe = NULL;
        io_uring_prep_read(io_uring_get_sqe(&ring), fd, bytes, SIZE, block * SIZE);
        CHECK(io_uring_submit(&ring) == 1);
        while (io_uring_peek_cqe(&ring, &cqe) != 0) usleep(100);
        count("io_uring_read", cqe->res);
        CHECK(cqe->res == SIZE);
        check_block(bytes, block);
        io_uring_cqe_seen(&ring, cqe);
    }
    // Without io_uring_queue_exit: the last result is found at the end of the process.
}

static void *own_ring(void *argument) {
    struct io_uring ring;
    int fd = open("data", O_RDONLY);
    ring_of(&ring, 16, 0);
    reads(&ring, fd, 50, 0, NULL);
    io_uring_queue_exit(&ring);
    close(fd);
    return argument;
}

static struct io_uring shared;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void *shared_ring(void *argument) {
    reads(&shared, (int)(long)argument, 50, 1, &shared_lock);
    return NULL;
}

static void threads(void) {
    pthread_t all[8];
    long fd = open("data", O_RDONLY);
    ring_of(&shared, 16, 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&all[i], NULL, i < 4 ? own_ring : shared_ring, (void *)fd) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(all[i], NULL) == 0);
}

/* A child that inherits a ring and uses its own; requests of the parent are in flight at the fork. */
static void forks(void) {
    struct io_uring ring;
    char *bytes = malloc(SIZE);
    int ends[2], fd = open("data", O_RDONLY);
    ring_of(&ring, 8, 0);
    CHECK(pipe(ends) == 0);
    reads(&ring, fd, 5, 0, NULL);
    io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], bytes, 100, 0);
    CHECK(io_uring_submit(&ring) == 1);
    pid_t child = fork();
    if (child == 0) {
        memset(counts, 0, sizeof counts);
        own_ring(NULL);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(write(ends[1], "hello", 5) == 5);
    CHECK(result(&ring, "io_uring_read") == 5);
    reads(&ring, fd, 5, 0, NULL);
    for (int i = 0; i < 400; i++) count("io_uring_read", SIZE); // the child's
    io_uring_queue_exit(&ring);
}

/* Rings that end with requests in flight, and rings at addresses of earlier ones. */
static void ends(void) {
    char byte;
    int pipes[2], fd = open("data", O_RDONLY);
    CHECK(pipe(pipes) == 0);
    for (int i = 0; i < 200; i++) {
        struct io_uring ring;
        ring_of(&ring, 4 << i % 3, 0);
        reads(&ring, fd, i % 3 == 0 ? 0 : 1, i % 2, NULL);
        io_uring_prep_read(io_uring_get_sqe(&ring), pipes[0], &byte, 1, 0);
        CHECK(io_uring_submit(&ring) == 1);
        io_uring_queue_exit(&ring);
    }
}

static void sockets(void) {
    struct io_uring ring;
    char bytes[1000] = {1};
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    ring_of(&ring, 8, 0);
    for (int i = 0; i < 20; i++) {
        io_uring_prep_send(io_uring_get_sqe(&ring), pair[0], bytes, 1000, 0);
        CHECK(one(&ring, "io_uring_send") == 1000);
        io_uring_prep_recv(io_uring_get_sqe(&ring), pair[1], bytes, 1000, 0);
        CHECK(one(&ring, "io_uring_recv") == 1000);
    }
    io_uring_queue_exit(&ring);
}

/* A handler that uses the ring of the thread that it interrupts: never within a call, but at any time between. */
static struct io_uring signalled;
static int signalled_fd;
static atomic_int handled;

static void handler(int signal) {
    (void)signal;
    char bytes[64];
    struct io_uring_cqe *cqe;
    io_uring_prep_read(io_uring_get_sqe(&signalled), signalled_fd, bytes, 64, 0);
    CHECK(io_uring_submit(&signalled) == 1);
    while (io_uring_wait_cqe(&signalled, &cqe) != 0) {}
    CHECK(cqe->res == 64);
    io_uring_cqe_seen(&signalled, cqe);
    handled++;
}

static void handlers(void) {
    struct io_uring ring;
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    int fd = signalled_fd = open("data", O_RDONLY);
    ring_of(&ring, 16, 0);
    ring_of(&signalled, 4, 0);
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &every, NULL);
    char *bytes = malloc(SIZE);
    for (int i = 0; i < 3000; i++) {
        io_uring_prep_read(io_uring_get_sqe(&ring), fd, bytes, SIZE, i % BLOCKS * SIZE);
        while (io_uring_submit(&ring) < 1) {}
        CHECK(result(&ring, "io_uring_read") == SIZE);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < handled; i++) count("io_uring_read", 64);
}

int main(int argc, char **argv) {
    struct io_uring ring;
    const char *which = argc > 1 ? argv[1] : "";
    make_data();
    if (!strcmp(which, "reads")) {
        ring_of(&ring, 16, 0);
        reads(&ring, open("data", O_RDONLY), 100, 0, NULL);
        reads(&ring, open("data", O_RDONLY), 100, 1, NULL);
        io_uring_queue_exit(&ring);
    } else if (!strcmp(which, "large")) {
        ring_of(&ring, 16, IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
        reads(&ring, open("data", O_RDONLY), 100, 0, NULL);
    } else if (!strcmp(which, "kinds")) kinds();
    else if (!strcmp(which, "registered")) registered();
    else if (!strcmp(which, "functions")) functions();
    else if (!strcmp(which, "peeks")) peeks(0);
    else if (!strcmp(which, "polled")) peeks(IORING_SETUP_SQPOLL);
    else if (!strcmp(which, "threads")) threads();
    else if (!strcmp(which, "forks")) forks();
    else if (!strcmp(which, "ends")) ends();
    else if (!strcmp(which, "sockets")) sockets();
    else if (!strcmp(which, "handlers")) handlers();
    else return 2;
    for (int i = 0; counts[i].name; i++) printf("%s %ld %ld\n", counts[i].name, counts[i].count, counts[i].bytes);
    return 0;
}
