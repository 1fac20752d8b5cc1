/* A library in place of CUPTI, with both versions of its interface. Records are delivered from a thread, some time after the
 * flush has returned, as CUPTI does. As in CUPTI, version 1 has one client, version 2 several if the first one allows that, and a
 * client is refused if one of the other version exists.
 *
 * -DOLD: a function of both versions is missing. -DPARTLY: functions of version 2 are missing, as in CUDA 13.2.
 * FAKE_CUPTI_ERROR and FAKE_CUPTI_ERROR_2 are results of the subscriptions, FAKE_CUPTI_TIME_2 is that of cuptiGetTimestamp_v2.
 * FAKE_CUPTI_SAY: prints at the end what the first client has used. FAKE_CUPTI_GRAPHS: an earlier client has set that version 2 reports graphs as a whole. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "cupti.h"

enum { SUCCESS = 0, INVALID = 1, NO_MORE = 12, SEVERAL = 39, ROOM = 4096, LONGEST = 248, CLIENTS = 3, KERNEL = 10, GRAPH = 51 };

typedef void (*request)(uint8_t **, size_t *, size_t *);
typedef void (*request_of)(uint8_t **, size_t *, size_t *, void *);
typedef void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef void (*complete_of)(uint8_t *, size_t, size_t, void *);

static struct client {
    int version, is_alone, enabled[64];
    void *request_buffer, *complete_buffer;
    size_t dropped;
    uint8_t *buffer;
    size_t size, used;
    int sizes[ROOM], records, number, is_unfinished;
} clients[CLIENTS];
static int subscriptions, is_forbidden, forced, first_version;
static uint64_t pool_limit;

static void called(const char *name) {
    if (is_forbidden) fprintf(stderr, "%s is called\n", name), _exit(99);
}

/* Returns the client of a call; ends the process if it is of another version than the call. */
static struct client *client_of(const char *name, void *handle, int version) {
    called(name);
    struct client *client = handle ? handle : clients;
    if (client->version != version) fprintf(stderr, "%s: a client of version %d\n", name, client->version), _exit(98);
    return client;
}
#define ONE() client_of(__func__, NULL, 1)
#define TWO(handle) client_of(__func__, handle, 2)

uint64_t fake_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

void fake_forbid(void) { is_forbidden = 1; }
void fake_drop(unsigned count) { clients->dropped += count; }
uint64_t fake_pool_limit(void) { return pool_limit; }
int fake_subscriptions(void) { return subscriptions; }

static uint8_t record[LONGEST];

static void put(int at, uint64_t value, int length) { memcpy(record + at, &value, length); }

/* Adds the record to the buffers of all clients that have enabled its kind. Later versions have longer records. */
static void add(uint32_t kind, int length) {
    put(0, kind, 4);
    for (struct client *client = clients; client < clients + CLIENTS; client++) {
        size_t most;
        int with_more = length + (client->version == 2 ? 24 : 0);
        if (!client->version || !client->enabled[kind] || !client->request_buffer) continue;
        if (!client->buffer) {
            if (client->version == 1) ((request)client->request_buffer)(&client->buffer, &client->size, &most);
            else ((request_of)client->request_buffer)(&client->buffer, &client->size, &most, NULL);
            client->used = client->records = client->is_unfinished = 0;
        }
        if (!client->buffer || client->used + with_more > client->size || client->records == ROOM) {
            client->dropped++;
            continue;
        }
        memset(client->buffer + client->used, 0xee, with_more);
        memcpy(client->buffer + client->used, record, length);
        client->used += with_more, client->sizes[client->records++] = with_more;
        client->is_unfinished |= kind == KERNEL && !memcmp(record + 24, (char[8]){0}, 8);
    }
    memset(record, 0, sizeof record);
}

void fake_kernel(const char *name, uint64_t start, uint64_t end, unsigned device, unsigned stream) {
    put(16, start, 8), put(24, end, 8), put(40, device, 4), put(48, stream, 4), put(104, (uint64_t)name, 8);
    add(KERNEL, 208);
}

void fake_copy(int kind, int from, int to, uint64_t bytes, uint64_t start, uint64_t end) {
    put(4, kind, 1), put(5, from, 1), put(6, to, 1), put(8, bytes, 8);
    put(16, start, 8), put(24, end, 8), put(32, 1, 4), put(40, 14, 4);
    add(1, 88);
}

void fake_set(uint64_t bytes, uint64_t start, uint64_t end) {
    put(8, bytes, 8), put(16, start, 8), put(24, end, 8), put(50, 3, 2);
    add(2, 80);
}

/* Graphs are reported as a whole if a client of version 1 asks for that, or the first one of version 2 has. */
void fake_graph(uint64_t start, uint64_t end) {
    if (clients->version == 2 && !getenv("FAKE_CUPTI_GRAPHS")) return fake_kernel("kernel of a graph", start, end, 0, 7);
    put(8, start, 8), put(16, end, 8), put(36, 7, 4);
    add(GRAPH, 56);
}

void fake_sync(int kind, uint64_t start, uint64_t end) {
    put(4, kind, 4), put(8, start, 8), put(16, end, 8), put(32, kind == 4 ? 0xffffffff : 7, 4);
    add(38, 56);
}

void fake_other(void) {
    for (struct client *client = clients; client < clients + CLIENTS; client++) client->enabled[36] = 1;
    add(36, 56);
}

/* Gives the process a client if those that it has and the settings allow that. */
static int subscribe(void **handle, int version, int is_alone, const char *error) {
    struct client *client = clients;
    if (error) return atoi(error);
    for (; client < clients + CLIENTS && client->version; client++)
        if (version == 1 || client->version == 1 || is_alone || client->is_alone) return SEVERAL;
    if (client == clients + CLIENTS) return SEVERAL;
    client->version = version, client->is_alone = is_alone, subscriptions++;
    if (client == clients) first_version = version;
    *handle = client;
    return SUCCESS;
}

int cuptiSubscribe(void **handle, void *callback, void *data) {
    called(__func__);
    return subscribe(handle, 1, 1, getenv("FAKE_CUPTI_ERROR"));
}

int cuptiUnsubscribe(void *handle) {
    called(__func__);
    struct client *client = handle;
    if (client < clients || client >= clients + CLIENTS || !client->version) return INVALID;
    memset(client, 0, sizeof *client);
    return SUCCESS;
}

static int enable(struct client *client, uint32_t kind) { return client->enabled[kind] = 1, SUCCESS; }
static int disable(struct client *client, uint32_t kind) { return client->enabled[kind] = 0, SUCCESS; }

static int register_callbacks(struct client *client, void *requested, void *completed) {
    client->request_buffer = requested, client->complete_buffer = completed;
    return SUCCESS;
}

int cuptiActivityRegisterCallbacks(void *requested, void *completed) { return register_callbacks(ONE(), requested, completed); }
int cuptiActivityEnable(uint32_t kind) { return enable(ONE(), kind); }
int cuptiActivityDisable(uint32_t kind) { return disable(ONE(), kind); }

/* Delivers the buffer after a pause. */
static void *deliver(void *of) {
    struct client *client = of;
    struct timespec pause = {0, 5000000};
    nanosleep(&pause, NULL);
    uint8_t *full = client->buffer;
    client->buffer = NULL;
    if (!full) return NULL;
    if (client->version == 1) ((complete)client->complete_buffer)(NULL, 0, full, client->size, client->used);
    else ((complete_of)client->complete_buffer)(full, client->size, client->used, NULL);
    return NULL;
}

/* Delivers the buffers of all clients; those with unfinished records if the flush is forced. */
int cuptiActivityFlushAll(uint32_t flag) {
    called(__func__);
    forced += flag;
    for (struct client *client = clients; client < clients + CLIENTS; client++) {
        pthread_t thread;
        if (!client->version || !client->buffer || (client->is_unfinished && !flag)) continue;
        pthread_create(&thread, NULL, deliver, client), pthread_detach(thread);
    }
    return SUCCESS;
}

__attribute__((destructor)) static void say(void) {
    if (getenv("FAKE_CUPTI_SAY")) fprintf(stderr, "first client: version %d; %d forced flushes\n", first_version, forced);
}

static int next_record(struct client *client, uint8_t *from, uint8_t **record) {
    if (!*record) client->number = 0, *record = from;
    else *record += client->sizes[client->number++];
    return client->number < client->records ? SUCCESS : NO_MORE;
}

static int get_dropped(struct client *client, size_t *count) { return *count = client->dropped, client->dropped = 0, SUCCESS; }

static int set_attribute(int attribute, size_t *length, void *value) {
    if (attribute == 2 && *length == 8) memcpy(&pool_limit, value, 8);
    return SUCCESS;
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t valid, uint8_t **record) { return next_record(ONE(), from, record); }
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) { return get_dropped(ONE(), count); }
int cuptiActivitySetAttribute(int attribute, size_t *length, void *value) {
    return ONE(), set_attribute(attribute, length, value);
}

#ifndef OLD
int cuptiGetTimestamp(uint64_t *time) { return ONE(), *time = fake_now(), SUCCESS; }
#endif

int cuptiGetResultString(int result, const char **text) {
    *text = result == 35 ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OTHER";
    return SUCCESS;
}

int cuptiSubscribe_v2(void **handle, void *callback, void *data, struct fake_parameters *parameters) {
    called(__func__);
    if (parameters && parameters->size != sizeof *parameters) return INVALID;
    return subscribe(handle, 2, !parameters || parameters->allows_others != 1, getenv("FAKE_CUPTI_ERROR_2"));
}

int cuptiActivityRegisterCallbacks_v2(void *handle, void *requested, void *completed) {
    return register_callbacks(TWO(handle), requested, completed);
}

int cuptiActivityEnable_v2(void *handle, uint32_t kind, void *configuration) {
    struct client *client = TWO(handle);
    return kind == GRAPH && !getenv("FAKE_CUPTI_GRAPHS") ? 14 : enable(client, kind);
}

int cuptiActivityDisable_v2(void *handle, uint32_t kind, void *configuration) { return disable(TWO(handle), kind); }
int cuptiActivitySetAttribute_v2(void *handle, int attribute, size_t *length, void *value) {
    return TWO(handle), set_attribute(attribute, length, value);
}

int cuptiActivityGetAttribute_v2(void *handle, int attribute, size_t *length, void *value) {
    TWO(handle);
    if (attribute != 20 || *length != 1) return INVALID;
    return *(uint8_t *)value = getenv("FAKE_CUPTI_GRAPHS") != NULL, SUCCESS;
}

#ifndef PARTLY
int cuptiActivityGetNextRecord_v2(void *handle, uint8_t *from, size_t valid, uint8_t **record) {
    return next_record(TWO(handle), from, record);
}

int cuptiActivityGetNumDroppedRecords_v2(void *handle, void *context, uint32_t stream, size_t *count) {
    return get_dropped(TWO(handle), count);
}

int cuptiGetTimestamp_v2(void *handle, uint64_t *time) {
    const char *error = getenv("FAKE_CUPTI_TIME_2");
    return TWO(handle), *time = fake_now(), error ? atoi(error) : SUCCESS;
}
#endif
