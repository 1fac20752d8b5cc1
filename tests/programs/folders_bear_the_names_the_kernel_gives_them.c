/* Paths relative to directories that were opened in every way: events have the real location of the file. */
//= case: as ever
//= run: calls
//= on /real/inner/by-descriptor: openat=1 close=1
//= on /real/inner/by-duplicate: openat=1 close=1
//= on /real/inner/in-it: open=1 close=1
//= on /real/moved/in-it: open=1 close=1
//= on /real/moved/by-descriptor: openat=1 close=1
//= on /real/moved/by-duplicate: openat=1 close=1
//= on /real/moved/sub/deeper: openat=1 close=1
//= on /real/above: open=1 close=1
//= on /other/through-link: openat=1 close=1
//= on /other/again: openat=1 close=1
//= on /old-name: open=1 pread=2 rename=1
//= on /gone/too-late: open=1
//= on /gone/by-descriptor: openat=1
//= on /walk/one/seen: open=1 close=1
//= on /walk/two/seen: open=1 close=1
//= on /received/file: openat=1 close=1
//= on /swapped-a/file: openat=1 close=1
//= on /swapped-b/file: openat=2 close=2
//= case: inherited by another program
//= run: exec
//= processes: 2
//= endings: exec, exit 42
//= on /real/inner/after-exec: openat=1 close=1
//= on /real/after-exec: open=1 close=1
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static void touch(int dir, const char *name) {
    int fd = openat(dir, name, O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0 && close(fd) == 0);
}

static void touch_here(const char *name) {
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0 && close(fd) == 0);
}

static void make(const char *folder) { EXPECT(syscall(SYS_mkdir, folder, 0700) == 0); }

static int folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    EXPECT(fd >= 0);
    return fd;
}

static int visits(const char *path, const struct stat *found, int kind, struct FTW *where) {
    (void)path, (void)found;
    if (kind == FTW_D && where->level == 1) return 0;
    if (kind == FTW_F && where->level == 2) touch_here("seen");
    return 0;
}

/* The receiver gets a descriptor without an open call in its trace. */
static int received(const char *path) {
    int ends[2], sent = syscall(SYS_open, path, O_RDONLY | O_DIRECTORY);
    EXPECT(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &sent, sizeof sent);
    EXPECT(sendmsg(ends[0], &message, 0) == 1 && recvmsg(ends[1], &message, 0) == 1);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    EXPECT(fd != sent);
    return fd;
}

static void calls(void) {
    char bytes[4];
    int inner = folder("link/inner");
    touch(inner, "by-descriptor");
    int second = dup(inner);
    touch(second, "by-duplicate");
    EXPECT(fchdir(inner) == 0);
    touch_here("in-it");

    /* An open directory is renamed. */
    EXPECT(rename("../inner", "../moved") == 0);
    touch_here("in-it");
    touch(inner, "by-descriptor");
    touch(second, "./by-duplicate");
    make("sub");
    int sub = openat(inner, "sub", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    touch(sub, "deeper");
    EXPECT(chdir("..") == 0);
    touch_here("above");
    EXPECT(chdir("..") == 0);
    int file = open("old-name", O_CREAT | O_RDWR, 0600);
    EXPECT(pread(file, bytes, 4, 0) == 0);
    EXPECT(rename("old-name", "new-name") == 0);
    EXPECT(pread(file, bytes, 4, 0) == 0);

    /* Two directories swap names. */
    make("swapped-a");
    make("swapped-b");
    int a = folder("swapped-a"), b = folder("swapped-b");
    touch(a, "file");
    touch(b, "file");
    EXPECT(renameat2(AT_FDCWD, "swapped-a", AT_FDCWD, "swapped-b", RENAME_EXCHANGE) == 0);
    touch(a, "file");

    /* A link gets a new target. */
    make("other");
    EXPECT(unlink("link") == 0 && symlink("other", "link") == 0);
    int other = folder("link");
    touch(other, "through-link");
    EXPECT(close(other) == 0);
    other = folder("link");
    touch(other, "again");

    make("received");
    touch(received("received"), "file");

    make("walk");
    make("walk/one");
    make("walk/two");
    syscall(SYS_close, syscall(SYS_open, "walk/one/file", O_CREAT | O_WRONLY, 0600));
    syscall(SYS_close, syscall(SYS_open, "walk/two/file", O_CREAT | O_WRONLY, 0600));
    EXPECT(nftw("walk", visits, 8, FTW_CHDIR | FTW_PHYS) == 0);

    make("gone");
    int gone = folder("gone");
    EXPECT(chdir("gone") == 0 && rmdir("../gone") == 0);
    EXPECT(open("too-late", O_CREAT | O_RDWR, 0600) == -1 && errno == ENOENT);
    EXPECT(openat(gone, "by-descriptor", O_CREAT | O_RDWR, 0600) == -1 && errno == ENOENT);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        touch(atoi(argv[2]), "after-exec");
        touch_here("after-exec");
        return PASSED;
    }
    make("real");
    make("real/inner");
    EXPECT(syscall(SYS_symlink, "real", "link") == 0);
    if (!strcmp(argv[1], "calls")) return calls(), PASSED;
    char number[12];
    sprintf(number, "%d", (int)syscall(SYS_open, "link/inner", O_RDONLY | O_DIRECTORY));
    EXPECT(chdir("link") == 0);
    execl("/proc/self/exe", argv[0], "exec", number, (char *)NULL);
    return 1;
}
