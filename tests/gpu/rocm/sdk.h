/* The device of the library in place of rocprofiler-sdk, sdk.c: a program adds the work that it is to report. Agent 0 is a
 * processor, agents 1 and 2 are GPUs. */
#include <stdint.h>

uint64_t fake_now(void);
/* Numbers 1 and 5000 have names. */
void fake_kernel(uint64_t number, int agent, unsigned queue, uint64_t start, uint64_t end);
/* Directions: host to host (1), host to device (2), device to host (3), device to device (4). */
void fake_copy(int direction, int from, int to, uint64_t bytes, uint64_t start, uint64_t end);
/* Records of another kind, and of a form with longer fields. */
void fake_other(void);
/* Makes each further call of the library end the process. */
void fake_forbid(void);
