/* A CUDA runtime for tests without a GPU. A handle is a time in microseconds: that is how long a call waits for it. The handle 901
 * is invalid. Like the real one, the runtime waits by a call of the driver if that is loaded. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifndef PART
static int waits(uintptr_t us) {
    if (us == 0) return 0;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*below)(void) = driver ? (int (*)(void))dlsym(driver, "cuCtxSynchronize") : NULL;
    if (below) below();
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 < (long)us);
    errno = EDOM;
    return us == 901 ? 400 : 0;
}

int cudaStreamSynchronize(void *stream) { return waits((uintptr_t)stream); }
int cudaStreamSynchronize_ptsz(void *stream) { return waits((uintptr_t)stream); }
int cudaEventSynchronize(void *event) { return waits((uintptr_t)event); }
int cudaDeviceSynchronize(void) { return waits(700); }

int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    int error = waits(kind == 3 ? 901 : 500);
    if (!error) memcpy(to, from, size);
    return error;
}
#else
/* A library that is linked with the runtime, as those of PyTorch are. */
int cudaStreamSynchronize(void *);
int cudaStreamSynchronize_ptsz(void *);
int cudaEventSynchronize(void *);
int cudaDeviceSynchronize(void);
int cudaMemcpy(void *, const void *, size_t, int);

/* Returns 0 if each call had the right result. */
int run(void) {
    static char text[] = "four bytes and more", copy[sizeof text];
    int bad = 0;
    for (int i = 0; i < 3; i++) bad += cudaStreamSynchronize((void *)2000) != 0 || errno != EDOM;
    bad += cudaStreamSynchronize_ptsz((void *)1000) != 0;
    bad += cudaEventSynchronize((void *)3000) != 0;
    bad += cudaDeviceSynchronize() != 0;
    bad += cudaMemcpy(copy, text, sizeof text, 1) != 0 || strcmp(copy, text) != 0;
    /* Too short to have waited. */
    for (int i = 0; i < 100; i++) bad += cudaStreamSynchronize(NULL) != 0;
    return bad;
}

int fail(void) {
    int (*found)(void *) = (int (*)(void *))dlsym(dlopen("libcudart.so.12", RTLD_LAZY | RTLD_NOLOAD), "cudaEventSynchronize");
    return cudaMemcpy(NULL, NULL, 4096, 3) == 400 && found((void *)1500) == 0 ? 0 : 1;
}
#endif
