/* A library in place of CUPTI, version 1 of its interface. Records are delivered from a thread, some time after the flush has
 * returned, as CUPTI does. FAKE_CUPTI_ERROR is the result of the subscription; with -DOLD a function is missing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cupti.h"

enum { SUCCESS = 0, NO_MORE = 12, SEVERAL = 39, ROOM = 4096, LONGEST = 208 };

typedef void (*request)(uint8_t **, size_t *, size_t *);
typedef void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);

static request request_buffer;
static complete complete_buffer;
static int subscribers, subscriptions, enabled[64], is_forbidden;
static size_t dropped;
static uint64_t pool_limit;
static uint8_t *buffer;
static size_t size, used;
static int sizes[ROOM], records;

static void called(const char *name) {
    if (is_forbidden) fprintf(stderr, "%s is called\n", name), _exit(99);
}

uint64_t fake_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

void fake_forbid(void) { is_forbidden = 1; }
void fake_drop(unsigned count) { dropped += count; }
uint64_t fake_pool_limit(void) { return pool_limit; }
int fake_subscriptions(void) { return subscriptions; }

static uint8_t *add(uint32_t kind, int length) {
    static uint8_t ignored[LONGEST];
    if (!enabled[kind] || !request_buffer) return ignored;
    size_t most;
    if (!buffer) request_buffer(&buffer, &size, &most), used = records = 0;
    if (!buffer || used + length > size || records == ROOM) return dropped++, ignored;
    uint8_t *record = memset(buffer + used, 0, length);
    memcpy(record, &kind, 4);
    used += length, sizes[records++] = length;
    return record;
}

static void put(uint8_t *record, int at, uint64_t value, int length) { memcpy(record + at, &value, length); }

void fake_kernel(const char *name, uint64_t start, uint64_t end, unsigned device, unsigned stream) {
    uint8_t *record = add(10, 208);
    put(record, 16, start, 8), put(record, 24, end, 8), put(record, 40, device, 4), put(record, 48, stream, 4);
    put(record, 104, (uint64_t)name, 8);
}

void fake_copy(int kind, int from, int to, uint64_t bytes, uint64_t start, uint64_t end) {
    uint8_t *record = add(1, 96);
    put(record, 4, kind, 1), put(record, 5, from, 1), put(record, 6, to, 1), put(record, 8, bytes, 8);
    put(record, 16, start, 8), put(record, 24, end, 8), put(record, 32, 1, 4), put(record, 40, 14, 4);
}

void fake_set(uint64_t bytes, uint64_t start, uint64_t end) {
    uint8_t *record = add(2, 88);
    put(record, 8, bytes, 8), put(record, 16, start, 8), put(record, 24, end, 8), put(record, 50, 3, 2);
}

void fake_graph(uint64_t start, uint64_t end) {
    uint8_t *record = add(51, 56);
    put(record, 8, start, 8), put(record, 16, end, 8), put(record, 36, 7, 4);
}

void fake_sync(int kind, uint64_t start, uint64_t end) {
    uint8_t *record = add(38, 56);
    put(record, 4, kind, 4), put(record, 8, start, 8), put(record, 16, end, 8);
    put(record, 32, kind == 4 ? 0xffffffff : 7, 4);
}

void fake_other(void) {
    enabled[36] = 1;
    add(36, 56);
}

int cuptiSubscribe(void **handle, void *callback, void *data) {
    called("cuptiSubscribe");
    const char *error = getenv("FAKE_CUPTI_ERROR");
    if (error) return atoi(error);
    if (subscribers) return SEVERAL;
    subscribers = 1, subscriptions++;
    *handle = &subscribers;
    return SUCCESS;
}

int cuptiUnsubscribe(void *handle) {
    called("cuptiUnsubscribe");
    subscribers = 0;
    return handle == &subscribers ? SUCCESS : 1;
}

int cuptiActivityRegisterCallbacks(request requested, complete completed) {
    request_buffer = requested, complete_buffer = completed;
    return SUCCESS;
}

int cuptiActivityEnable(uint32_t kind) { return enabled[kind] = 1, SUCCESS; }
int cuptiActivityDisable(uint32_t kind) { return enabled[kind] = 0, SUCCESS; }

/* Delivers the buffer after a pause. */
static void *deliver(void *unused) {
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    uint8_t *full = buffer;
    buffer = NULL;
    complete_buffer(NULL, 0, full, size, used);
    return NULL;
}

int cuptiActivityFlushAll(uint32_t flag) {
    called("cuptiActivityFlushAll");
    pthread_t thread;
    if (!buffer) return SUCCESS;
    if (flag) pthread_create(&thread, NULL, deliver, NULL), pthread_detach(thread);
    else deliver(NULL);
    return SUCCESS;
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record) {
    static int number;
    if (!*record) number = 0, *record = from;
    else *record += sizes[number++];
    return number < records ? SUCCESS : NO_MORE;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    *count = dropped, dropped = 0;
    return SUCCESS;
}

int cuptiActivitySetAttribute(int attribute, size_t *length, void *value) {
    if (attribute == 2 && *length == 8) memcpy(&pool_limit, value, 8);
    return SUCCESS;
}

#ifndef OLD
int cuptiGetTimestamp(uint64_t *time) { return *time = fake_now(), SUCCESS; }
#endif

int cuptiGetResultString(int result, const char **text) {
    *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OTHER";
    return SUCCESS;
}
