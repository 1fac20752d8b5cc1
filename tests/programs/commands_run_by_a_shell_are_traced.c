/* system and popen: the shell and the programs it starts have their own traces. */
//= among: system=1 popen=1 pclose=1 fgets=1
//= processes: >=1
//= endings: *
#include <stdio.h>
#include "expect.h"

int main(void) {
    char bytes[64];
    EXPECT(system("cat /etc/passwd > copy") == 0);
    FILE *stream = popen("echo hello", "r");
    EXPECT(fgets(bytes, 64, stream) && !strcmp(bytes, "hello\n"));
    EXPECT(pclose(stream) == 0);
    return PASSED;
}
