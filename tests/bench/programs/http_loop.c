/* GETs of objects over one connection, each received whole: what no client can do without.
 *
 *     http_loop PORT PASSES PATH COUNT      PATH has a %d for the number of the object
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 80 << 20 };

/* Receives one response; returns 0 if it is invalid or ends early. */
static int receive(int server, char *buffer) {
    size_t came = 0, whole = 0;
    while (!whole || came < whole) {
        ssize_t count = recv(server, buffer + came, ROOM - 1 - came, 0);
        if (count <= 0) return 0;
        came += count;
        if (!whole) {
            buffer[came] = 0;
            char *end = strstr(buffer, "\r\n\r\n"), *length = strstr(buffer, "Content-Length: ");
            if (end && !length) return 0;
            if (end) whole = end + 4 - buffer + atoll(length + 16);
        }
    }
    return 1;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    int server = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(server, (struct sockaddr *)&place, sizeof place)) return 1;
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    char *buffer = malloc(ROOM);
    memset(buffer, 1, ROOM);
    for (int pass = 0; pass < atoi(words[2]); pass++) {
        for (int number = 0; number < atoi(words[4]); number++) {
            char path[300], request[400];
            snprintf(path, sizeof path, words[3], number);
            int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
            if (send(server, request, length, 0) != length || !receive(server, buffer)) return 1;
        }
    }
    return 0;
}
