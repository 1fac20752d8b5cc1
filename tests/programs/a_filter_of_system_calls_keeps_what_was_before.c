/* A program forbids itself most system calls, like a sandbox. Events recorded before that are kept, later events are
 * counted as lost, and the message about lost events contains the reason. */
//= on data: open=1 write=1 pwrite=>=50
//= done: 3002
//= lost: >=1
//= says: not permitted, for example by a seccomp filter
//= says: the trace is
//= leftovers: yes
//= case: refused
//= run: 1
//= case: unknown to it
//= run: 38
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "expect.h"

#define ALLOWED(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(int argc, char **argv) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOWED(read),
        ALLOWED(write),
        ALLOWED(pwrite64),
        ALLOWED(close),
        ALLOWED(exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[1])),
    };
    struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    int fd = open("data", O_CREAT | O_WRONLY, 0600);
    EXPECT(fd >= 0 && write(fd, "x", 1) == 1);
    EXPECT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    for (int i = 0; i < 3000; i++) EXPECT(pwrite(fd, "x", 1, i) == 1);
    return PASSED;
}
