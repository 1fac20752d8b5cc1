/* Pipes and sockets have unique names; terminals and memory have the name of their kind. Inherited, passed,
 * duplicated, deleted and renamed files and /dev/fd have the path by which they were opened. */
//= on <pipe>: pipe=1 write=2 read=1 close=1 dup=1
//= on <memory>: memfd_create=1 write=1
//= on <socket>: write=2 read=1 fstat=0 socketpair=1 sendmsg=1 recvmsg=1
//= on old: open=1 write=1 fstat=1 rename=1
//= on gone: open=1 write=1 unlink=1
//= on data: open=2 read=2
//= on passed: read=1
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static void pass(int socket, int fd) {
    char place[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec list = {&byte, 1};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof place};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
    EXPECT(sendmsg(socket, &message, 0) == 1);
}

static int take(int socket) {
    char place[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec list = {&byte, 1};
    struct msghdr message = {.msg_iov = &list, .msg_iovlen = 1, .msg_control = place, .msg_controllen = sizeof place};
    int fd;
    EXPECT(recvmsg(socket, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

int main(void) {
    int nameless = open(".", O_TMPFILE | O_RDWR, 0600);
    EXPECT(nameless < 0 || write(nameless, "x", 1) == 1);
    int ends[2], pair[2];
    char bytes[16], path[32];
    struct stat found;
    EXPECT(pipe(ends) == 0);
    EXPECT(write(ends[1], "abc", 3) == 3 && read(ends[0], bytes, 3) == 3);
    int copy = dup(ends[1]);
    EXPECT(write(copy, "d", 1) == 1 && close(copy) == 0);
    int memory = memfd_create("something", 0);
    EXPECT(write(memory, "abc", 3) == 3);
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    EXPECT(write(pair[0], "abc", 3) == 3 && write(pair[1], "abc", 3) == 3 && read(pair[1], bytes, 3) == 3);

    int old = open("old", O_CREAT | O_RDWR, 0600);
    EXPECT(rename("old", "new") == 0);
    EXPECT(write(old, "abc", 3) == 3 && fstat(old, &found) == 0);
    int gone = open("gone", O_CREAT | O_RDWR, 0600);
    EXPECT(unlink("gone") == 0 && write(gone, "abc", 3) == 3);

    int data = syscall(SYS_open, "data", O_CREAT | O_RDWR, 0600);
    EXPECT(read(data, bytes, 3) == 0);
    sprintf(path, "/dev/fd/%d", data);
    int again = open(path, O_RDONLY);
    EXPECT(again >= 0 && read(again, bytes, 3) == 0);
    sprintf(path, "/proc/self/fd/%d", data);
    EXPECT(open(path, O_RDONLY) >= 0);

    int given = syscall(SYS_open, "passed", O_CREAT | O_RDWR, 0600);
    pass(pair[0], given);
    char rest[3];
    syscall(SYS_read, pair[0], rest, 3);
    int received = take(pair[1]);
    EXPECT(received != given && read(received, bytes, 1) == 0);
    return PASSED;
}
