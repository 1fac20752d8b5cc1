/* The program's side of the simulated device: see driver.c. Streams are numbered from 0, the default one; times are nanoseconds of
 * CLOCK_BOOTTIME. */
#ifndef FAKE_H
#define FAKE_H
#include <stdint.h>

int64_t fake_now(void);
/* Initializes the driver, as cuInit does. The device's clock gains `drift` of the time that passes. */
void fake_start(double drift);
void *fake_stream(int number);
/* Adds work to a stream, and returns at once. */
void fake_launch(void *stream, int64_t ns);
int64_t fake_busy_until(void *stream);
void fake_drain(void *stream);
void fake_capture(void *stream, int is_capturing);
void fake_destroy_context(void);
void fake_create_context(void);
/* Makes all calls fail from now on. */
void fake_lose_device(void);
/* The number of events that were recorded in streams, and the time at which each completed. */
int fake_recorded(void);
int64_t fake_completed(int number);
/* The numbers of calls of the driver, and of events that exist. */
long fake_calls(void);
int fake_events(void);
/* Sets the last error of HIP. */
void fake_set_error(int error);
#endif
