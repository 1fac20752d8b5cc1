/* malloc and similar functions for the C code linked into this library, zstd and libdeflate. They are hidden, so that
 * the program keeps its own. A program may end in a signal handler that interrupted its malloc; finishing the
 * trace there must not wait for a lock that the interrupted call holds. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

void *dlio_allocate(size_t size);
void dlio_release(void *memory, size_t size);

/* Each allocation stores its size, which `free` does not get. */
#define HEAD 16

HIDDEN void *malloc(size_t size) {
    if (size > PTRDIFF_MAX - HEAD) return NULL;
    char *memory = dlio_allocate(size + HEAD);
    if (memory == NULL) return NULL;
    *(size_t *)(void *)memory = size;
    return memory + HEAD;
}

HIDDEN void free(void *piece) {
    if (piece == NULL) return;
    char *memory = (char *)piece - HEAD;
    dlio_release(memory, *(size_t *)(void *)memory + HEAD);
}

HIDDEN void *calloc(size_t count, size_t size) {
    if (size != 0 && count > PTRDIFF_MAX / size) return NULL;
    void *piece = malloc(count * size);
    if (piece != NULL) memset(piece, 0, count * size);
    return piece;
}

HIDDEN void *realloc(void *piece, size_t size) {
    void *larger = malloc(size);
    if (larger == NULL || piece == NULL) return larger;
    size_t before = *(size_t *)(void *)((char *)piece - HEAD);
    memcpy(larger, piece, before < size ? before : size);
    free(piece);
    return larger;
}

/* Called from Rust, so that this file is linked at all. */
void dlio_memory_is_linked(void) {}
