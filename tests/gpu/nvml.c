/* A driver's library for management (NVML), with as many GPUs and such failures as environment variables request. The n-th
 * query of a GPU returns numbers that contain n. With -DOLD it lacks newer functions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, NO_PERMISSION = 4, LOST = 15, GPUS = 4 };

typedef struct { int number, queries; } gpu;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int kind, status;
    unsigned long long value;
} field;

static gpu gpus[GPUS];

static int requested(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* The last GPU fails after this number of queries. */
static int status(gpu *gpu) {
    int is_last = gpu->number == requested("FAKE_NVML_GPUS", 1) - 1;
    return is_last && gpu->queries > requested("FAKE_NVML_LOST_AFTER", 1 << 30) ? LOST : SUCCESS;
}

int nvmlInit_v2(void) { return requested("FAKE_NVML_INIT", SUCCESS); }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = requested("FAKE_NVML_GPUS", 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned number, gpu **found) {
    if (number >= GPUS || (int)number == requested("FAKE_NVML_FORBIDDEN", -1)) return NO_PERMISSION;
    gpus[number].number = number;
    *found = &gpus[number];
    return SUCCESS;
}

const char *nvmlErrorString(int status) { return status == 9 ? "Driver Not Loaded" : "Unknown Error"; }

int nvmlDeviceGetUtilizationRates(gpu *gpu, utilization *found) {
    gpu->queries++;
    if (gpu->number == requested("FAKE_NVML_DIVIDED", -1)) return NOT_SUPPORTED;
    found->gpu = 10 * gpu->number + gpu->queries, found->memory = gpu->number;
    return status(gpu);
}

int nvmlDeviceGetMemoryInfo(gpu *gpu, memory *found) {
    found->total = 1ull << 37, found->used = (gpu->number + 1ull) << 33, found->free = found->total - found->used;
    return status(gpu);
}

int nvmlDeviceGetUUID(gpu *gpu, char *text, unsigned length) {
    snprintf(text, length, "GPU-00%d", gpu->number);
    return SUCCESS;
}

#ifndef OLD
int nvmlDeviceGetName(gpu *gpu, char *text, unsigned length) {
    snprintf(text, length, "Fake GPU");
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(gpu *gpu, unsigned *milliwatts) {
    *milliwatts = 70000 + gpu->queries;
    return status(gpu);
}

/* One of the counters is too narrow on the first GPU. */
int nvmlDeviceGetFieldValues(gpu *gpu, int count, field *fields) {
    for (int i = 0; i < count; i++) {
        int is_known = fields[i].id == 197 || fields[i].id == 198;
        fields[i].status = is_known ? SUCCESS : NOT_SUPPORTED;
        fields[i].kind = fields[i].id == 197 && gpu->number == 0 ? 1 : 3;
        fields[i].value = fields[i].id * 1000ull * gpu->queries;
    }
    return status(gpu);
}
#endif
