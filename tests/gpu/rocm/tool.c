/* A tool of the user, in addition to the trace: it prints when it is called. */
#include <stdint.h>
#include <stdio.h>

static int initialize(void *finalizer, void *data) { return fprintf(stderr, "tool: initialized\n"), 0; }
static void finalize(void *data) { fprintf(stderr, "tool: finalized\n"); }
static struct { size_t size; int (*initialize)(void *, void *); void (*finalize)(void *); void *data; } tool = {32, initialize, finalize, NULL};

void *rocprofiler_configure(uint32_t version, const char *runtime, uint32_t priority, void *client) { return &tool; }
