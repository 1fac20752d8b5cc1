/* dliotrace: spans, instants and counters for C (C99) and C++, in the same trace as the program's I/O.
 *
 * There is no library to link. The header looks up the engine once, at run time, in the preloaded libdliotrace.so. Without it
 * every call returns immediately.
 *
 *     dlio_span step = dlio_begin("step", "compute");
 *     dlio_set_int(&step, "batch", 32);
 *     ...
 *     dlio_end(&step);
 *
 * Most of the cost of `dlio_begin` is looking up its two strings. A site caches them:
 * `static dlio_site site = DLIO_SITE("step", "compute"); dlio_span step = dlio_begin_at(&site);`.
 *
 * In C++, `dlio::Span step("step", "compute");` and `dlio::Span step(site);` end with their scope. A span belongs to the thread
 * that started it; a span that ends on another thread counts as misuse and is not recorded. Link with -ldl if the C library
 * does not contain dlsym.
 */
/* Record I/O that a library does without file calls, such as a request to an object store, when it has finished:
 *
 *     dlio_io get = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 0, length);
 *     ...
 *     dlio_io_done(&get, "s3://bucket/key", bytes, error);
 */
#ifndef DLIOTRACE_H
#define DLIOTRACE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLIO_ENGINE_VERSION 1u
/* Maximum pairs of metadata per span; more are ignored. */
#define DLIO_META_MAX 8

/* Layout of `Meta`, `OpenSpan` and `Table` in the Rust crate dlio-tracer. */
typedef struct {
    uint32_t key;
    int32_t kind; /* 0 integer, 1 bits of a double, 2 number of a text */
    int64_t value;
} dlio_meta;

typedef struct {
    uint64_t start;
    uint32_t name, category;
    int64_t steps;
    uint32_t generation, depth;
    uintptr_t line;
} dlio_open_span;

/* I/O of a library without file calls, such as a request to an object store. */
typedef struct {
    uint32_t op;         /* DLIO_OBJECT_GET and similar */
    int32_t error;       /* 0, or the errno of the failure */
    uint64_t start, end; /* values of dlio_now() */
    int64_t pos;         /* -1: none */
    int64_t requested, moved;
} dlio_io;

enum {
    DLIO_OBJECT_GET = 420,
    DLIO_OBJECT_PUT,
    DLIO_OBJECT_PART,
    DLIO_OBJECT_HEAD,
    DLIO_OBJECT_LIST,
    DLIO_OBJECT_DELETE,
    DLIO_OBJECT_COPY,
    DLIO_OBJECT_BEGIN, /* start of a multipart upload */
    DLIO_OBJECT_COMPLETE,
    DLIO_OBJECT_ABORT,
    DLIO_OBJECT_OTHER,
    DLIO_OBJECT_CONNECT
};

typedef struct {
    uint32_t version, size;
    const volatile uint32_t *on;
    const volatile uint32_t *generation;
    uint32_t (*intern)(uint32_t kind, const char *text, size_t length);
    void (*begin)(dlio_open_span *span, uint32_t name, uint32_t category, int64_t steps);
    void (*update)(const dlio_open_span *span);
    void (*end)(dlio_open_span *span, const dlio_meta *meta, size_t count);
    void (*instant)(uint32_t name, uint32_t category, int64_t steps, const dlio_meta *meta, size_t count);
    void (*counter)(uint32_t name, uint32_t category, double value);
    void (*describe)(const char *key, size_t key_length, const char *text, size_t length);
    void (*start)(void);
    /* Older engines lack these members: see dlio_io_engine. */
    uint64_t (*now)(void);
    void (*io_done)(const dlio_io *io, const char *name, size_t length, const dlio_meta *meta, size_t count);
    /* And older ones lack these: see dlio_device_engine. */
    void (*next_entered)(uintptr_t stream, int64_t steps);
    void (*next_returned)(uintptr_t stream, uint32_t has_batch);
} dlio_engine;

typedef struct {
    dlio_open_span open;
    dlio_meta meta[DLIO_META_MAX];
    size_t count;
} dlio_span;

/* A span site in the source: name and category, with their cached numbers. */
typedef struct {
    const char *name, *category;
    uint64_t name_number; /* generation in the upper half, so that threads read both atomically */
    uint64_t category_number;
} dlio_site;

#define DLIO_SITE(name, category) {name, category, 0, 0}

/* Returns the engine of this process, or NULL. */
static inline const dlio_engine *dlio_find_engine(void) {
    static const dlio_engine *found;
    static int looked;
    if (!looked) {
        const dlio_engine *(*exported)(void);
        void *address = dlsym(RTLD_DEFAULT, "dlio_engine_v1");
        memcpy(&exported, &address, sizeof exported);
        const dlio_engine *engine = address ? exported() : NULL;
        found = engine && engine->version == DLIO_ENGINE_VERSION ? engine : NULL;
        looked = 1;
    }
    return found;
}

/* Returns the engine if it is recording spans, otherwise NULL. */
static inline const dlio_engine *dlio_recording(void) {
    const dlio_engine *engine = dlio_find_engine();
    return engine && *engine->on ? engine : NULL;
}

static inline uint32_t dlio_number(const dlio_engine *engine, uint32_t kind, const char *text) {
    return engine->intern(kind, text, strlen(text));
}

static inline dlio_span dlio_begin(const char *name, const char *category) {
    dlio_span span;
    span.open.start = 0;
    span.count = 0;
    const dlio_engine *engine = dlio_recording();
    if (engine) {
        const int64_t no_steps = (int64_t)(((uint64_t)0x80000000u << 32) | 0x80000000u);
        engine->begin(&span.open, dlio_number(engine, 3, name), dlio_number(engine, 4, category), no_steps);
    }
    return span;
}

/* Returns the number cached in a site, and looks it up again if the generation has changed. Zero is never a generation. */
static inline uint32_t dlio_kept_number(const dlio_engine *engine, uint64_t *kept, uint32_t kind, const char *text) {
    uint64_t known = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if ((uint32_t)(known >> 32) != *engine->generation) {
        uint32_t number = dlio_number(engine, kind, text);
        /* The first string can start a generation. */
        known = ((uint64_t)*engine->generation << 32) | number;
        __atomic_store_n(kept, known, __ATOMIC_RELAXED);
    }
    return (uint32_t)known;
}

static inline dlio_span dlio_begin_at(dlio_site *site) {
    dlio_span span;
    span.open.start = 0;
    span.count = 0;
    const dlio_engine *engine = dlio_recording();
    if (engine) {
        const int64_t no_steps = (int64_t)(((uint64_t)0x80000000u << 32) | 0x80000000u);
        uint32_t name = dlio_kept_number(engine, &site->name_number, 3, site->name);
        uint32_t category = dlio_kept_number(engine, &site->category_number, 4, site->category);
        engine->begin(&span.open, name, category, no_steps);
    }
    return span;
}

/* Ends a span; has no effect if it has already ended. */
static inline void dlio_end(dlio_span *span) {
    if (span->open.start) dlio_find_engine()->end(&span->open, span->meta, span->count);
}

/* Sets epoch and step, which have separate columns. INT32_MIN means none. */
static inline void dlio_set_steps(dlio_span *span, int32_t epoch, int32_t step) {
    if (span->open.start) {
        span->open.steps = (int64_t)(((uint64_t)(uint32_t)epoch << 32) | (uint32_t)step);
        dlio_find_engine()->update(&span->open);
    }
}

static inline void dlio_add_meta(dlio_span *span, const char *key, int32_t kind, int64_t value) {
    if (span->open.start && span->count < DLIO_META_MAX) {
        dlio_meta *meta = &span->meta[span->count++];
        meta->key = dlio_number(dlio_find_engine(), 5, key);
        meta->kind = kind;
        meta->value = value;
    }
}

static inline void dlio_set_int(dlio_span *span, const char *key, int64_t value) { dlio_add_meta(span, key, 0, value); }

static inline void dlio_set_double(dlio_span *span, const char *key, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    dlio_add_meta(span, key, 1, bits);
}

static inline void dlio_set_text(dlio_span *span, const char *key, const char *value) {
    if (span->open.start) dlio_add_meta(span, key, 2, dlio_number(dlio_find_engine(), 5, value));
}

static inline void dlio_instant(const char *name, const char *category) {
    const dlio_engine *engine = dlio_recording();
    if (engine) {
        const int64_t no_steps = (int64_t)(((uint64_t)0x80000000u << 32) | 0x80000000u);
        engine->instant(dlio_number(engine, 3, name), dlio_number(engine, 4, category), no_steps, NULL, 0);
    }
}

static inline void dlio_counter(const char *name, double value) {
    const dlio_engine *engine = dlio_recording();
    if (engine) engine->counter(dlio_number(engine, 3, name), dlio_number(engine, 4, "app"), value);
}

/* Describes this process: rank, ranks, job, label. */
static inline void dlio_describe(const char *key, const char *text) {
    const dlio_engine *engine = dlio_recording();
    if (engine) engine->describe(key, strlen(key), text, strlen(text));
}

/* Returns the engine if it can record the I/O of libraries, otherwise NULL. */
static inline const dlio_engine *dlio_io_engine(void) {
    const dlio_engine *engine = dlio_find_engine();
    return engine && engine->size >= offsetof(dlio_engine, io_done) + sizeof engine->io_done ? engine : NULL;
}

/* Returns a timestamp for the start or end of I/O; 0 if nothing is recorded. */
static inline uint64_t dlio_now(void) {
    const dlio_engine *engine = dlio_io_engine();
    return engine ? engine->now() : 0;
}

/* Starts I/O at `start` on the object of a URL. It becomes one event, like a call on a file. Any number can be in flight, and I/O
 * can end on another thread. */
static inline dlio_io dlio_io_begun(uint32_t op, uint64_t start, int64_t pos, int64_t requested) {
    dlio_io io = {op, 0, start, 0, pos, requested, 0};
    return io;
}

static inline void dlio_io_done_with(dlio_io *io, const char *url, int64_t moved, int error, const dlio_meta *meta,
                                     size_t count) {
    const dlio_engine *engine = dlio_io_engine();
    if (engine && io->start) {
        io->end = engine->now();
        io->moved = moved;
        io->error = error;
        engine->io_done(io, url, strlen(url), meta, count);
        io->start = 0;
    }
}

static inline void dlio_io_done(dlio_io *io, const char *url, int64_t moved, int error) {
    dlio_io_done_with(io, url, moved, error, NULL, 0);
}

/* Returns the engine if it records spans and can time a device, otherwise NULL. */
static inline const dlio_engine *dlio_device_engine(void) {
    const dlio_engine *engine = dlio_recording();
    return engine && engine->size >= offsetof(dlio_engine, next_returned) + sizeof engine->next_returned ? engine : NULL;
}

/* Times how long a GPU waits for a batch: call these before and after fetching one, on the thread that launches the model's
 * kernels, with the stream that runs them (a CUstream, cudaStream_t or hipStream_t; NULL is the default stream). Epoch and step
 * are INT32_MIN if there are none. `has_batch` is 0 at the end of the data. Only events are recorded and queried; nothing waits. */
static inline void dlio_next_entered(const void *stream, int32_t epoch, int32_t step) {
    const dlio_engine *engine = dlio_device_engine();
    if (engine) engine->next_entered((uintptr_t)stream, (int64_t)(((uint64_t)(uint32_t)epoch << 32) | (uint32_t)step));
}

static inline void dlio_next_returned(const void *stream, int has_batch) {
    const dlio_engine *engine = dlio_device_engine();
    if (engine) engine->next_returned((uintptr_t)stream, has_batch != 0);
}

#ifdef __cplusplus
}

namespace dlio {
/* A span that ends with its scope. */
class Span {
  public:
    Span(const char *name, const char *category = "app") : span_(dlio_begin(name, category)) {}
    explicit Span(dlio_site &site) : span_(dlio_begin_at(&site)) {}
    ~Span() { dlio_end(&span_); }
    Span(const Span &) = delete;
    Span &operator=(const Span &) = delete;
    void set(const char *key, int64_t value) { dlio_set_int(&span_, key, value); }
    void set(const char *key, int value) { dlio_set_int(&span_, key, value); }
    void set(const char *key, double value) { dlio_set_double(&span_, key, value); }
    void set(const char *key, const char *value) { dlio_set_text(&span_, key, value); }
    void steps(int32_t epoch, int32_t step) { dlio_set_steps(&span_, epoch, step); }

  private:
    dlio_span span_;
};
} // namespace dlio
#endif

#endif
