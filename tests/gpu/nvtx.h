/* The part of NVTX that each library contains: its functions call those of a tool, which are looked up at the first call by
 * NVTX's protocol for injection. Written for these tests; the real header is in the Python package nvidia-nvtx-cu12. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
} nvtx_event;

enum { NVTX_BYTES = 1, NVTX_WIDE = 2, NVTX_REGISTERED = 3, CORE = 1, CORE2 = 5, COUNT = 16 };

static void *nvtx_functions[COUNT], *nvtx_domain_functions[COUNT];
static void **nvtx_places[COUNT + 1], **nvtx_domain_places[COUNT + 1];

static int nvtx_functions_of(unsigned module, void ****places, unsigned *count) {
    if (module != CORE && module != CORE2) return 0;
    *places = module == CORE ? nvtx_places : nvtx_domain_places;
    *count = COUNT;
    return 1;
}

static const void *nvtx_table(unsigned number) {
    static const struct {
        size_t size;
        int (*functions_of)(unsigned, void ****, unsigned *);
    } callbacks = {sizeof callbacks, nvtx_functions_of};
    return number == 1 ? &callbacks : NULL;
}

/* Returns whether a tool accepted this library. */
static int nvtx_initialize(void) {
    for (int i = 1; i < COUNT; i++) {
        nvtx_places[i] = &nvtx_functions[i];
        nvtx_domain_places[i] = &nvtx_domain_functions[i];
    }
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
    int (*initialize)(const void *(*)(unsigned)) = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
    if (initialize && initialize(nvtx_table)) return 1;
    memset(nvtx_functions, 0, sizeof nvtx_functions);
    return 0;
}

static nvtx_event nvtx_named(int type, const void *message) {
    nvtx_event event = {3, sizeof event, 0, 1, 0xff00ff00, 1, 0, 7, type, message};
    return event;
}

#define NVTX_CALL(table, number, result, types, ...) \
    (table[number] ? ((result (*) types)table[number])(__VA_ARGS__) : (result)0)
#define CORE_CALL(number, result, types, ...) NVTX_CALL(nvtx_functions, number, result, types, __VA_ARGS__)
#define DOMAIN_CALL(number, result, types, ...) NVTX_CALL(nvtx_domain_functions, number, result, types, __VA_ARGS__)

static void nvtx_mark(const char *text) {
    if (nvtx_functions[2]) ((void (*)(const char *))nvtx_functions[2])(text);
}
static uint64_t nvtx_start(const char *text) { return CORE_CALL(5, uint64_t, (const char *), text); }
static void nvtx_end(uint64_t range) {
    if (nvtx_functions[7]) ((void (*)(uint64_t))nvtx_functions[7])(range);
}
static int nvtx_push_event(const nvtx_event *event) { return CORE_CALL(8, int, (const nvtx_event *), event); }
static int nvtx_push(const char *text) { return CORE_CALL(9, int, (const char *), text); }
static int nvtx_push_wide(const wchar_t *text) { return CORE_CALL(10, int, (const wchar_t *), text); }
static int nvtx_pop(void) { return CORE_CALL(11, int, (void), ); }
static uint64_t nvtx_domain_start(void *domain, const nvtx_event *event) {
    return DOMAIN_CALL(2, uint64_t, (void *, const nvtx_event *), domain, event);
}
static int nvtx_domain_push(void *domain, const nvtx_event *event) {
    return DOMAIN_CALL(4, int, (void *, const nvtx_event *), domain, event);
}
static int nvtx_domain_pop(void *domain) { return DOMAIN_CALL(5, int, (void *), domain); }
static void *nvtx_register(void *domain, const char *text) {
    return DOMAIN_CALL(10, void *, (void *, const char *), domain, text);
}
static void *nvtx_domain(const char *name) { return DOMAIN_CALL(12, void *, (const char *), name); }
