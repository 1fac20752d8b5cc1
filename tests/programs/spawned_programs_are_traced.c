/* posix_spawn and posix_spawnp, with descriptor actions and with an environment that the caller builds. */
//= case: parent
//= run: parent
//= among: posix_spawn=2 pread=3 open=3
//= processes: 3
//= case: one missing
//= run: missing
//= events: posix_spawn=1
//= results posix_spawn: -2
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include "expect.h"

int main(int argc, char **argv) {
    char bytes[16];
    pid_t child;
    int status;
    char *own[] = {"OWN=1", NULL}, *arguments[] = {argv[0], "child", NULL};
    if (!strcmp(argv[1], "missing")) {
        EXPECT(posix_spawn(&child, "/no/such/program", NULL, NULL, arguments, own) == ENOENT);
        return PASSED;
    }
    int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
    EXPECT(pread(fd, bytes, 16, 0) == 16);
    if (!strcmp(argv[1], "child")) return PASSED;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 7, "/dev/null", O_RDONLY, 0);
    EXPECT(posix_spawn(&child, argv[0], &actions, NULL, arguments, own) == 0);
    EXPECT(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == PASSED);
    EXPECT(posix_spawnp(NULL, argv[0], NULL, NULL, arguments, own) == 0);
    EXPECT(wait(&status) > 0 && WEXITSTATUS(status) == PASSED);
    return PASSED;
}
