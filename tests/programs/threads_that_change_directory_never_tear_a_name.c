/* One thread switches between two directories while others open files with relative paths. The directory of a name
 * is determined when it is looked up, and is always one of the two. */
//= compile: -pthread
//= among: open=3*20000 close=3*20000 chdir=>=2
//= files: 4
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include "expect.h"

static char folders[2][600];
static atomic_int busy = 3;

static void *opens(void *unused) {
    for (int i = 0; i < 20000; i++) {
        int fd = open("a-file-in-both-of-them", O_RDONLY);
        EXPECT(fd >= 0 && close(fd) == 0);
    }
    atomic_fetch_sub(&busy, 1);
    return unused;
}

int main(void) {
    char here[500], file[700];
    EXPECT(getcwd(here, sizeof here));
    for (int i = 0; i < 2; i++) {
        sprintf(folders[i], "%s/%s", here, i ? "b" : "another-folder-with-a-longer-name");
        sprintf(file, "%s/a-file-in-both-of-them", folders[i]);
        syscall(SYS_mkdir, folders[i], 0700);
        syscall(SYS_close, syscall(SYS_open, file, O_CREAT | O_RDWR, 0600));
    }
    EXPECT(chdir(folders[0]) == 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) EXPECT(pthread_create(&threads[i], NULL, opens, NULL) == 0);
    for (int i = 1; atomic_load(&busy) || i < 1000; i++) EXPECT(chdir(folders[i % 2]) == 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    /* Opens each of the four files once more, regardless of the threads. */
    for (int i = 0; i < 2; i++) {
        EXPECT(chdir(folders[i]) == 0 && access("a-file-in-both-of-them", R_OK) == 0);
    }
    return PASSED;
}
