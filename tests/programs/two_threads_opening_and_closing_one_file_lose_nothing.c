//= events: open=80000 close=80000 read=80000
//= on data: open=80000 close=80000 read=80000
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include "expect.h"

static void *opens(void *none) {
    char byte;
    for (int i = 0; i < 40000; i++) {
        int fd = open("data", O_RDONLY);
        EXPECT(fd >= 0 && read(fd, &byte, 1) == 0);
        EXPECT(close(fd) == 0);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    syscall(SYS_close, syscall(SYS_open, "data", O_CREAT | O_WRONLY, 0644));
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, opens, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return PASSED;
}
