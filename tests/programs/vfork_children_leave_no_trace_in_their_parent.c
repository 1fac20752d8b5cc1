/* A hundred vforks whose children rearrange descriptors before they execute another program: the parent's
 * descriptors and their names in the trace must not change. */
//= among: vfork=100 write=100 dup2=0 close=1
//= on data: open=1 write=100 lseek=1 close=1
//= processes: 1
#include <fcntl.h>
#include <sys/wait.h>
#include "expect.h"

int main(void) {
    int out = open("data", O_CREAT | O_WRONLY, 0600);
    for (int i = 0; i < 100; i++) {
        pid_t child = vfork();
        if (child == 0) {
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1);
            dup2(null, out);
            close(null);
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        int status;
        EXPECT(child > 0);
        EXPECT(write(out, "x", 1) == 1);
        EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 0);
    }
    EXPECT(lseek(out, 0, SEEK_CUR) == 100);
    close(out);
    return PASSED;
}
