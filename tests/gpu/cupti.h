/* The device of the library in place of CUPTI, cupti.c: a program adds the work that it is to report. Times are those of
 * CLOCK_REALTIME, as CUPTI's are. */
#include <stddef.h>
#include <stdint.h>

/* The parameters of a client of version 2. */
struct fake_parameters {
    size_t size;
    const char *name;
    char *other;
    size_t other_size;
    uint8_t allows_others, padding[7];
};

uint64_t fake_now(void);
void fake_kernel(const char *name, uint64_t start, uint64_t end, unsigned device, unsigned stream);
void fake_copy(int kind, int from, int to, uint64_t bytes, uint64_t start, uint64_t end);
void fake_set(uint64_t bytes, uint64_t start, uint64_t end);
void fake_graph(uint64_t start, uint64_t end);
/* A wait of the host: for an event (1), of a stream for an event (2), for a stream (3) or a context (4). */
void fake_sync(int kind, uint64_t start, uint64_t end);
/* A record of another kind, which clients skip. */
void fake_other(void);
void fake_drop(unsigned count);
/* The limit of buffers on the device that a client has set, and the number of subscriptions. */
uint64_t fake_pool_limit(void);
int fake_subscriptions(void);
/* Makes each further call of CUPTI end the process. */
void fake_forbid(void);
