/* A program executes another one under a filter of system calls that forbids creating files, as sandboxes do for
 * their tools. The executed program leaves no trace, and prints the number of lost events. */
//= processes: *
//= endings: *
//= lost: *
//= leftovers: yes
//= says: this process has no trace
//= says: not permitted, for example by a seccomp filter
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "expect.h"

/* Existing files may be opened to read and write; creating, renaming and removing files is forbidden. */
#define FORBIDDEN(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)

int main(int argc, char **argv) {
    char byte;
    if (argc > 1) {
        int fd = open("data", O_RDONLY);
        for (int i = 0; i < 1000; i++) EXPECT(fd >= 0 && pread(fd, &byte, 1, 0) == 1);
        return PASSED;
    }
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        FORBIDDEN(renameat2),
        FORBIDDEN(renameat),
        FORBIDDEN(rename),
        FORBIDDEN(unlinkat),
        FORBIDDEN(unlink),
        FORBIDDEN(ftruncate),
        FORBIDDEN(mknodat),
        FORBIDDEN(mknod),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    EXPECT(write(open("data", O_CREAT | O_WRONLY, 0600), "x", 1) == 1);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    execl(argv[0], argv[0], "inside", (char *)NULL);
    return 1;
}
