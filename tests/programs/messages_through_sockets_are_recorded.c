/* Messages through sockets by every function, with their bytes; connections; functions that create sockets. */
//= passes: off
//= among: recv=2 recvfrom=2 recvmsg=1 recvmmsg=1 send=3 sendto=1 sendmsg=1 sendmmsg=1 connect=3 accept=1
//= among: socketpair=1 shutdown=1 eventfd=1 getaddrinfo=2
//= bytes: recv=7 recvfrom=9 recvmsg=5 recvmmsg=6 send=12 sendto=4 sendmsg=5 sendmmsg=6
//= results getaddrinfo: 0 -2
//= results connect: 0 -111 0
//= on <eventfd>: eventfd=1 write=2 read=2
//= on <udp>: connect=1 send=1 sendto=1 sendmsg=1 sendmmsg=1 recvfrom=2 recvmsg=1 recvmmsg=1
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include "expect.h"

/* Functions that fortified programs and older libraries call. */
ssize_t __recv_chk(int, void *, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
ssize_t __send(int, const void *, size_t, int);
int __connect(int, const struct sockaddr *, socklen_t);

static char bytes[64];

static int bound(int kind, struct sockaddr_in *at) {
    socklen_t length = sizeof *at;
    *at = (struct sockaddr_in){AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, kind, 0);
    EXPECT(fd >= 0 && bind(fd, (void *)at, sizeof *at) == 0 && getsockname(fd, (void *)at, &length) == 0);
    return fd;
}

static void streams(void) {
    struct sockaddr_in at;
    int server = bound(SOCK_STREAM, &at);
    EXPECT(listen(server, 5) == 0);
    int client = socket(AF_INET, SOCK_STREAM, 0), late = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(connect(client, (void *)&at, sizeof at) == 0);
    int taken = accept(server, NULL, NULL);
    EXPECT(taken >= 0 && send(client, "four", 4, 0) == 4);
    EXPECT(recv(taken, bytes, 4, MSG_WAITALL) == 4);
    EXPECT(__send(taken, "six", 3, 0) == 3 && __recv_chk(client, bytes, 64, 64, MSG_WAITALL | MSG_DONTWAIT) == 3);
    EXPECT(shutdown(client, SHUT_WR) == 0);
    EXPECT(close(server) == 0 && connect(late, (void *)&at, sizeof at) == -1 && errno == ECONNREFUSED);
}

static void datagrams(void) {
    struct sockaddr_in here, there;
    int to = bound(SOCK_DGRAM, &here), from = bound(SOCK_DGRAM, &there);
    EXPECT(__connect(from, (void *)&here, sizeof here) == 0);
    EXPECT(send(from, "hello", 5, 0) == 5 && recvfrom(to, bytes, 64, 0, NULL, NULL) == 5);
    EXPECT(sendto(from, "more", 4, 0, NULL, 0) == 4);
    EXPECT(__recvfrom_chk(to, bytes, 64, 64, 0, NULL, NULL) == 4);
    struct iovec list[2] = {{bytes, 3}, {bytes, 2}};
    struct mmsghdr messages[2] = {{{.msg_iov = list, .msg_iovlen = 2}}, {{.msg_iov = list, .msg_iovlen = 2}}};
    EXPECT(sendmsg(from, &messages[0].msg_hdr, 0) == 5 && recvmsg(to, &messages[0].msg_hdr, 0) == 5);
    messages[0].msg_hdr.msg_iovlen = messages[1].msg_hdr.msg_iovlen = 1;
    EXPECT(sendmmsg(from, messages, 2, 0) == 2 && recvmmsg(to, messages, 2, 0, NULL) == 2);
}

int main(void) {
    int pair[2];
    unsigned long number = 7;
    struct addrinfo *found, hints = {.ai_flags = AI_NUMERICHOST};
    streams();
    datagrams();
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    int counter = eventfd(0, 0);
    EXPECT(write(counter, &number, 8) == 8 && read(counter, &number, 8) == 8 && number == 7);
    EXPECT(eventfd_write(counter, 3) == 0 && eventfd_read(counter, &number) == 0 && number == 3);
    EXPECT(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
    freeaddrinfo(found);
    EXPECT(getaddrinfo("no host", "80", &hints, &found) == EAI_NONAME);
    return PASSED;
}
