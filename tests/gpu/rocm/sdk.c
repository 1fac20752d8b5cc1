/* A library in place of rocprofiler-sdk. It looks for tools as that does, also in the libraries that ROCP_TOOL_LIBRARIES names; it
 * ignores the last of several. VERSION is that of the library: since version 1, callbacks have one word more.
 * Its clock is not that of any other. -DOLD: a function is missing. FAKE_ROCM_ERROR is the result of starting the context. */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "sdk.h"

#ifndef VERSION
#define VERSION 10100
#endif

enum { SUCCESS, FINALIZED = 20, WRONG = 18, COPY = 10, DISPATCH = 11, CODE = 10, SYMBOL = 2, LOADED = 1, ROOM = 8192, AGENTS = 3, TOOLS = 4 };

typedef struct { size_t size; int (*initialize)(void *, void *); void (*finalize)(void *); void *data; } tool;
typedef tool *(*configure)(uint32_t, const char *, uint32_t, void *);
typedef struct { uint32_t category, kind; void *payload; } header;
typedef struct { uint64_t words[VERSION < 10000 ? 7 : 8]; } code_record;

static configure configured[TOOLS];
static tool tools[TOOLS];
static int count_of_tools, is_forbidden, is_finalized, is_initializing, is_started, traces[64];
static void (*deliver)(uint64_t, uint64_t, header **, size_t, void *, uint64_t);
static void (*call_back)(code_record, void *, void *);
static size_t watermark;
static uint8_t records[ROOM][192];
static header headers[ROOM], *pointers[ROOM];
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void called(const char *name) {
    if (is_forbidden) fprintf(stderr, "%s is called\n", name), _exit(99);
}

uint64_t fake_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec + 123456789012345ull;
}

void fake_forbid(void) { is_forbidden = 1; }

/* The descriptions of agents are longer than those of the oldest version. */
static uint8_t agents[AGENTS][328];
static uint64_t handle_of(int agent) { return 7000 + agent; }

static void *deliver_all(void *unused) {
    if (used) deliver(1, 2, pointers, used, NULL, 0);
    return used = 0, NULL;
}

/* Delivers from a thread of the library, and waits for it. */
static void flush(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, deliver_all, NULL), pthread_join(thread, NULL);
}

static void put(uint8_t *record, int at, uint64_t value, int length) { memcpy(record + at, &value, length); }

/* Adds a record if its kind is traced; the caller fills it. */
static uint8_t *begin(uint32_t kind, int size) {
    pthread_mutex_lock(&lock);
    uint8_t *record = memset(records[used], 0xee, sizeof records[0]);
    put(record, 0, size, 8), put(record, 8, kind, 4);
    headers[used] = (header){1, kind, record}, pointers[used] = &headers[used];
    return record;
}

static void end(uint32_t kind) {
    if (is_started && traces[kind] && ++used >= watermark) flush();
    pthread_mutex_unlock(&lock);
}

static void load_kernel(uint64_t number, const char *name) {
    struct { uint64_t size, number, code; const char *name; uint64_t more[4]; } kernel = {sizeof kernel, number, 1, name};
    code_record record = {{1, 2, 3, 4}};
    int at = VERSION < 10000 ? 4 : 5;
    record.words[at] = CODE | (uint64_t)SYMBOL << 32, record.words[at + 1] = LOADED | 0xeeeeeeeeull << 32;
    record.words[at + 2] = (uint64_t)&kernel;
    if (is_started) call_back(record, NULL, NULL);
}

void fake_kernel(uint64_t number, int agent, unsigned queue, uint64_t start, uint64_t stop) {
    static int has_loaded;
    if (!has_loaded++) load_kernel(1, "first_kernel.kd"), load_kernel(5000, "second_kernel");
    uint8_t *record = begin(DISPATCH, VERSION < 10000 ? 184 : 192);
    put(record, 40, start, 8), put(record, 48, stop, 8), put(record, 56, 72, 8), put(record, 64, handle_of(agent), 8);
    put(record, 72, queue, 8), put(record, 80, number, 8);
    end(DISPATCH);
}

void fake_copy(int direction, int from, int to, uint64_t bytes, uint64_t start, uint64_t stop) {
    uint8_t *record = begin(COPY, VERSION < 10000 ? 80 : 96);
    put(record, 12, direction, 4), put(record, 40, start, 8), put(record, 48, stop, 8);
    put(record, 56, handle_of(to), 8), put(record, 64, handle_of(from), 8), put(record, 72, bytes, 8);
    end(COPY);
}

void fake_other(void) {
    uint64_t now = fake_now();
    uint8_t *record = begin(DISPATCH, 192);
    put(record, 48, now, 8), put(record, 56, now, 8), put(record, 64, 72, 8);
    end(DISPATCH);
}

static void finalize(void) {
    for (int at = 0; at < count_of_tools; at++)
        if (tools[at].finalize) tools[at].finalize(tools[at].data);
    is_finalized = 1;
}

static void add(void *function) {
    for (int at = 0; at < count_of_tools; at++)
        if ((void *)configured[at] == function) return;
    if (function && count_of_tools < TOOLS) configured[count_of_tools++] = function;
}

static int look_in(struct dl_phdr_info *info, size_t size, void *unused) {
    void *library = *info->dlpi_name ? dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    Dl_info found;
    void *function = library ? dlsym(library, "rocprofiler_configure") : NULL;
    /* A library that only depends on one with the function has none itself. */
    if (function && dladdr(function, &found) && !strcmp(found.dli_fname, info->dlpi_name)) add(function);
    return 0;
}

static void find_tools(void) {
    char *list = getenv("ROCP_TOOL_LIBRARIES"), *end;
    list = list ? strdup(list) : NULL;
    int is_list = list && strchr(list, ':');
    for (char *name = list; name && *name; name = end + 1) {
        end = strchr(name, ':');
        if (is_list && !end) break;
        if (end) *end = 0;
        void *library = *name ? dlopen(name, RTLD_LOCAL | RTLD_LAZY) : NULL;
        if (*name && !library) abort();
        if (library) add(dlsym(library, "rocprofiler_configure"));
        if (!end) break;
    }
    void *function = dlsym(RTLD_DEFAULT, "rocprofiler_configure");
    add(function), add(dlsym(RTLD_NEXT, "rocprofiler_configure"));
    if (function) dl_iterate_phdr(look_in, NULL);
}

/* ROCm's libraries pass their functions when they are initialized. */
int rocprofiler_set_api_table(const char *name, uint64_t version, uint64_t instance, void **tables, uint64_t count) {
    uint64_t client[3] = {0};
    called(__func__);
    for (int at = 0; at < AGENTS; at++) {
        put(agents[at], 0, sizeof agents[at], 8), put(agents[at], 8, handle_of(at), 8), put(agents[at], 16, at ? 2 : 1, 4);
        put(agents[at], 288, at ? at - 1 : 0, 4);
    }
    find_tools();
    is_initializing = 1;
    for (int at = 0; at < count_of_tools; at++) {
        tool *found = configured[at](VERSION, "fake", at, client);
        if (client[0] || client[1]) abort();
        if (found) tools[at] = *found;
    }
    for (int at = 0; at < count_of_tools; at++)
        if (tools[at].initialize) tools[at].initialize(NULL, tools[at].data);
    is_initializing = 0;
    atexit(finalize);
    return 0;
}

int rocprofiler_create_context(uint64_t *context) { return called(__func__), *context = 1, is_initializing ? SUCCESS : WRONG; }

int rocprofiler_create_buffer(uint64_t context, size_t size, size_t batch, int policy, void *callback, void *data, uint64_t *id) {
    called(__func__);
    if (context != 1 || size < 184 * batch || batch > ROOM || policy != 2) return WRONG;
    return deliver = callback, watermark = batch, *id = 2, SUCCESS;
}

int rocprofiler_configure_callback_tracing_service(uint64_t context, int kind, const int *operations, size_t count, void *callback, void *data) {
    called(__func__);
    if (context != 1 || kind != CODE || operations || count) return WRONG;
    return call_back = callback, SUCCESS;
}

int rocprofiler_configure_buffer_tracing_service(uint64_t context, int kind, const int *operations, size_t count, uint64_t buffer) {
    called(__func__);
    if (context != 1 || buffer != 2 || operations || count || traces[kind]) return WRONG;
    return traces[kind] = 1, SUCCESS;
}

int rocprofiler_start_context(uint64_t context) {
    const char *error = getenv("FAKE_ROCM_ERROR");
    called(__func__);
    is_started = !error;
    return error ? atoi(error) : SUCCESS;
}

int rocprofiler_flush_buffer(uint64_t buffer) {
    called(__func__);
    if (is_finalized) return fprintf(stderr, "flush after the end\n"), FINALIZED;
    pthread_mutex_lock(&lock), flush(), pthread_mutex_unlock(&lock);
    return SUCCESS;
}

#ifndef OLD
int rocprofiler_get_timestamp(uint64_t *ns) { return *ns = fake_now(), SUCCESS; }
#endif

int rocprofiler_query_available_agents(int version, int (*callback)(int, const void **, size_t, void *), size_t size, void *data) {
    const void *list[AGENTS];
    for (int at = 0; at < AGENTS; at++) list[at] = agents[at];
    return version != 1 || size > sizeof agents[0] ? WRONG : callback(version, list, AGENTS, data);
}

const char *rocprofiler_get_status_string(int status) {
    return status == 11 ? "Context operation failed due to a conflict with another context" : NULL;
}
