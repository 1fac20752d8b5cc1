/* An allocator does I/O from its first call. The tracer is entered from inside malloc, and does not call malloc
 * itself. */
//= compile: -rdynamic
//= among: open=1 pread=>=1001 close=1
#include <fcntl.h>
#include <stddef.h>
#include "expect.h"

static char arena[1 << 24];
static size_t used;
static int self = -1, inside;

static void *take(size_t size) {
    char byte;
    if (self >= 0 && !inside) {
        inside = 1;
        EXPECT(pread(self, &byte, 1, 0) == 1);
        inside = 0;
    }
    size_t at = __sync_fetch_and_add(&used, (size + 31) & ~15ul);
    *(size_t *)(arena + at) = size;
    return arena + at + 16;
}

void *malloc(size_t size) { return take(size); }
void free(void *memory) {}
void *calloc(size_t count, size_t size) { return take(count * size); }
void *realloc(void *old, size_t size) {
    void *fresh = take(size);
    if (old) memcpy(fresh, old, ((size_t *)old)[-2] < size ? ((size_t *)old)[-2] : size);
    return fresh;
}

int main(int argc, char **argv) {
    self = open(argv[0], O_RDONLY);
    for (int i = 0; i < 1000; i++) EXPECT(malloc(100) != NULL);
    char byte;
    pread(self, &byte, 1, 0);
    inside = 1;
    close(self);
    return PASSED;
}
