/* Makes requests through a ring without a library, and prints their numbers and bytes. The first argument selects how
 * the kernel is entered: by the C library's function, or by an instruction of the program. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 4096
#define CHECK(is) do { if (!(is)) { fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #is, errno); exit(1); } } while (0)

static int by_instruction, by_index;
static long reads, writes, read_bytes, written_bytes;

__attribute__((noinline)) static long enter(int ring, unsigned submit, unsigned least, unsigned flags) {
    if (!by_instruction) return syscall(SYS_io_uring_enter, ring, submit, least, flags, NULL, 0);
    long ret;
    // A value in a register that the compiler may use across the instruction, and one below the stack pointer.
    register double kept __asm__("xmm7") = submit + 0.5;
    __asm__ volatile("" : "+x"(kept));
    register long r10 __asm__("r10") = flags;
    register long r8 __asm__("r8") = 0;
    register long r9 __asm__("r9") = 0;
    __asm__ volatile("movq $0x1234567, -64(%%rsp)\n\t"
                     "movl $426, %%eax\n\tmovl %%esi, %%esi\n\tsyscall\n\t"
                     "cmpq $0x1234567, -64(%%rsp)\n\tje 1f\n\tud2\n1:"
                     : "=a"(ret) : "D"((long)ring), "S"((long)submit), "d"((long)least), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory", "cc");
    __asm__ volatile("" : "+x"(kept));
    CHECK(kept == submit + 0.5);
    if (ret < 0) errno = -ret;
    return ret < 0 ? -1 : ret;
}

static void use(unsigned flags, int rounds) {
    struct io_uring_params p = {.flags = flags};
    errno = 0;
    int ring = syscall(SYS_io_uring_setup, 8, &p);
    if (ring < 0 && (errno == EPERM || errno == ENOSYS)) exit(77);
    CHECK(ring >= 0 && errno == 0);
    CHECK(syscall(SYS_io_uring_setup, 0, &p) == -1 && errno == EINVAL);
    size_t size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe) + p.sq_entries * 4 + SIZE;
    char *queue = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *sqes = mmap(0, p.sq_entries * sizeof *sqes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    CHECK(queue != MAP_FAILED && (void *)sqes != MAP_FAILED);
    _Atomic unsigned *tail = (void *)(queue + p.sq_off.tail), *done = (void *)(queue + p.cq_off.tail);
    _Atomic unsigned *taken = (void *)(queue + p.cq_off.head);
    unsigned *array = (void *)(queue + p.sq_off.array);
    struct io_uring_cqe *cqes = (void *)(queue + p.cq_off.cqes);
    int files[2] = {open("data", O_RDWR | O_CREAT, 0600), open("out", O_RDWR | O_CREAT, 0600)};
    static char bytes[8 * SIZE];
    CHECK(pwrite(files[0], bytes, sizeof bytes, 0) == sizeof bytes);
    CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, files, 2) == 0);
    int entered = ring;
    if (by_index) {
        struct io_uring_rsrc_update update = {.offset = -1U, .data = ring};
        CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_RING_FDS, &update, 1) == 1);
        entered = update.offset;
    }
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++) {
            // The array names the requests in reverse.
            unsigned at = 7 - (*tail & 7);
            sqes[at] = (struct io_uring_sqe){.opcode = i < 6 ? IORING_OP_READ : IORING_OP_WRITE, .fd = i < 6 ? 0 : 1,
                .flags = IOSQE_FIXED_FILE, .addr = (unsigned long)(bytes + SIZE * i), .len = SIZE - i, .off = SIZE * i,
                .user_data = i % 3};
            array[*tail & 7] = at;
            atomic_store(tail, *tail + 1);
            i < 6 ? (reads++, read_bytes += SIZE - i) : (writes++, written_bytes += SIZE - i);
        }
        // Half of them first.
        unsigned more = by_index ? 1U << 4 : 0;
        CHECK(enter(entered, 4, 0, more) == 4);
        CHECK(enter(entered, 4, 8, IORING_ENTER_GETEVENTS | more) == 4);
        for (; atomic_load(taken) != atomic_load(done); atomic_store(taken, *taken + 1))
            CHECK(cqes[*taken & (p.cq_entries - 1)].res > 0);
    }
    errno = 7;
    CHECK(enter(ring, 0, 0, 0) == 0 && errno == 7);
    CHECK(enter(files[0], 1, 0, 0) == -1 && errno != 7);
    munmap(queue, size);
    munmap(sqes, p.sq_entries * sizeof *sqes);
    close(ring);
    close(files[0]);
    close(files[1]);
}

int main(int argc, char **argv) {
    by_instruction = argc > 1 && !strcmp(argv[1], "instruction");
    by_index = argc > 1 && !strcmp(argv[1], "index");
    use(0, 100);
    use(0, 100);
    printf("io_uring_read %ld %ld\nio_uring_write %ld %ld\n", reads, read_bytes, writes, written_bytes);
    return 0;
}
