/* A driver of a simulated device, for tests without a GPU: libcuda.so.1, or libamdhip64.so with -DHIP.
 *
 * Each stream is a queue: fake_launch() adds work that takes some time on the host's clock, and an event completes when the queue
 * gets to it. Times of events are those of the device's own clock, which may drift. A mistake of the caller that a real driver
 * answers with a crash or worse ends the process here. OLD leaves out the functions that the oldest drivers lack. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

#ifdef HIP
#define NAMED(cuda, hip) hip
#else
#define NAMED(cuda, hip) cuda
#endif

enum { NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_READY = 600, LOST = 46, CAPTURE_IMPLICIT = 906 };
enum { STREAMS = 4, EVENTS = 4096, RECORDS = 1 << 17 };

static struct stream {
    _Atomic int64_t busy_until;
    int is_capturing;
} streams[STREAMS];

static struct event {
    int64_t completed; /* 0: never recorded */
    uint64_t context;
} events[EVENTS];

static struct {
    int is_started, is_forked;
    uint64_t context, contexts;
    int is_lost, is_gone, is_any_capturing, error, events;
    double drift;
} driver;

static struct { int64_t completed; int stream; } records[RECORDS];
static int record_count;
static _Atomic long calls;
static __thread unsigned mode; /* of captures: 0 is the default of a thread */

static _Noreturn void mistake(const char *text) {
    fprintf(stderr, "fake driver: %s\n", text);
    abort();
}

int64_t fake_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* ---- the program's side ---------------------------------------------------------------------------------------------- */

static void gone(void) { driver.is_gone = 1; }
static void forked(void) { driver.is_forked = 1; }

void fake_start(double drift) {
    driver.is_started = 1;
    pthread_atfork(NULL, NULL, forked);
    driver.context = ++driver.contexts;
    driver.drift = drift;
    atexit(gone);
}

void *fake_stream(int number) { return number == 0 ? NULL : &streams[number]; }

static struct stream *stream_of(void *handle) { return handle == NULL ? &streams[0] : handle; }

void fake_launch(void *handle, int64_t ns) {
    struct stream *stream = stream_of(handle);
    int64_t now = fake_now(), until = stream->busy_until;
    stream->busy_until = (until > now ? until : now) + ns;
}

int64_t fake_busy_until(void *handle) { return stream_of(handle)->busy_until; }

void fake_drain(void *handle) {
    while (fake_now() < stream_of(handle)->busy_until) usleep(20);
}

void fake_capture(void *handle, int is_capturing) {
    stream_of(handle)->is_capturing = driver.is_any_capturing = is_capturing;
}

void fake_destroy_context(void) { driver.context = 0; }
void fake_create_context(void) { driver.context = ++driver.contexts; }
void fake_lose_device(void) { driver.is_lost = 1; }
int fake_recorded(void) { return record_count; }
int64_t fake_completed(int number) { return records[number].completed; }
long fake_calls(void) { return calls; }
int fake_events(void) { return driver.events; }
void fake_set_error(int error) { driver.error = error; }

/* ---- the driver's functions ------------------------------------------------------------------------------------------- */

/* Ends the process if no call is allowed here; returns an error that every call has. */
static int checked(void) {
    calls++;
    if (!driver.is_started) return NOT_INITIALIZED;
    if (driver.is_forked) mistake("called in a forked child");
    if (driver.is_gone) mistake("called after its end");
    errno = EDOM;
    return driver.is_lost ? LOST : 0;
}

static int failed(int result) {
#ifdef HIP
    if (result) driver.error = result;
#endif
    return result;
}

static void uncaptured(void) {
    if (driver.is_any_capturing && mode != 2) mistake("an unsafe call while a stream is captured");
}

static struct event *event_of(void *handle) {
    struct event *event = handle;
    if (event < events || event >= events + EVENTS) mistake("not an event");
    if (event->context != driver.context) mistake("an event of a context that was destroyed");
    return event;
}

#ifdef HIP
int hipPeekAtLastError(void) { return driver.error; }

int hipGetLastError(void) {
    int error = driver.error;
    driver.error = 0;
    return error;
}
#else
int cuCtxGetCurrent(void **context) {
    int error = checked();
    /* A new context has the address of the previous one. */
    *context = driver.context == 0 ? NULL : (void *)0x1000;
    return error == LOST ? 0 : error;
}

#ifndef OLD
int cuCtxGetId(void *context, unsigned long long *id) {
    *id = 100 + driver.context;
    return checked() == NOT_INITIALIZED ? NOT_INITIALIZED : 0;
}

int cuStreamGetId(void *stream, unsigned long long *id) {
    *id = 7 + (stream_of(stream) - streams);
    return checked();
}
#endif
#endif

int NAMED(cuCtxGetDevice, hipGetDevice)(int *device) {
    *device = 3;
    int error = checked();
    return driver.context == 0 ? INVALID_CONTEXT : error == LOST ? 0 : error;
}

int NAMED(cuEventCreate, hipEventCreateWithFlags)(void **event, unsigned flags) {
    int error = checked();
    if (error) return failed(error);
    if (flags) mistake("an event without a time");
    if (driver.events == EVENTS) mistake("too many events");
    events[driver.events].context = driver.context;
    *event = &events[driver.events++];
    return 0;
}

int NAMED(cuEventRecord, hipEventRecord)(void *handle, void *stream) {
    int error = checked();
    if (error) return failed(error);
    if (stream_of(stream)->is_capturing) mistake("an event in a graph");
    struct event *event = event_of(handle);
    int64_t now = fake_now(), until = stream_of(stream)->busy_until;
    event->completed = until > now ? until : now;
    if (record_count < RECORDS) {
        records[record_count].completed = event->completed;
        records[record_count++].stream = stream_of(stream) - streams;
    }
    return 0;
}

int NAMED(cuEventQuery, hipEventQuery)(void *handle) {
    int error = checked();
    if (error) return failed(error);
    uncaptured();
    struct event *event = event_of(handle);
    if (event->completed == 0) mistake("an event that was never recorded");
    return failed(fake_now() < event->completed ? NOT_READY : 0);
}

int NAMED(cuEventElapsedTime, hipEventElapsedTime)(float *ms, void *from, void *to) {
    int error = checked();
    if (error) return failed(error);
    struct event *first = event_of(from), *second = event_of(to);
    if (fake_now() < first->completed || fake_now() < second->completed) return failed(NOT_READY);
    *ms = (float)((second->completed - first->completed) * (1 + driver.drift) / 1e6);
    return 0;
}

#ifndef OLDEST
int NAMED(cuStreamIsCapturing, hipStreamIsCapturing)(void *stream, int *status) {
    int error = checked();
    if (error) return failed(error);
    /* The default stream would wait for the captured one. */
    if (stream == NULL && driver.is_any_capturing) return failed(CAPTURE_IMPLICIT);
    *status = stream_of(stream)->is_capturing;
    return 0;
}
#endif

int NAMED(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(unsigned *other) {
    unsigned before = mode;
    mode = *other;
    *other = before;
    return checked() == NOT_INITIALIZED ? NOT_INITIALIZED : 0;
}

/* ---- calls that wait --------------------------------------------------------------------------------------------------- */

static int waits(void *stream, int error) {
    if (!error) fake_drain(stream);
    errno = EDOM;
    return failed(error);
}

int NAMED(cuStreamSynchronize, hipStreamSynchronize)(void *stream) {
    return waits(stream, stream == (void *)1 ? INVALID_HANDLE : checked());
}

int NAMED(cuEventSynchronize, hipEventSynchronize)(void *event) {
    return waits(NULL, event == NULL ? INVALID_HANDLE : checked());
}

int NAMED(cuCtxSynchronize, hipDeviceSynchronize)(void) { return waits(NULL, checked()); }

#ifdef HIP
int hipMemcpy(void *to, const void *from, size_t size, int kind) {
    int error = waits(NULL, checked());
    if (!error) memcpy(to, from, size);
    return error;
}
#else
static int copied(uintptr_t to, uintptr_t from, size_t size) {
    int error = waits(NULL, checked());
    if (!error) memcpy((void *)to, (void *)from, size);
    return error;
}

int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t size) { return copied(to, (uintptr_t)from, size); }
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t size) { return copied((uintptr_t)to, from, size); }
int cuMemcpyDtoD_v2(uintptr_t to, uintptr_t from, size_t size) { return copied(to, from, size); }
#endif
