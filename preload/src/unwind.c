/* The standard library prints backtraces of panics and requires libgcc_s for that, which every traced process would have to
 * load. A panic here prints its location in one sentence and aborts, so stacks are never walked. Cancelled threads unwind
 * through hooks with the program's own libgcc_s, and only by tables: our frames have nothing to be cleaned up. */
#include <stdint.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { END_OF_STACK = 5 };

HIDDEN int _Unwind_Backtrace(void *visit, void *data) {
    (void)visit, (void)data;
    return END_OF_STACK;
}

HIDDEN void _Unwind_Resume(void *exception) {
    (void)exception;
    abort();
}

#define NOTHING(name) \
    HIDDEN uintptr_t name(void *context) { \
        (void)context; \
        return 0; \
    }

NOTHING(_Unwind_GetIP)
NOTHING(_Unwind_GetLanguageSpecificData)
NOTHING(_Unwind_GetRegionStart)
NOTHING(_Unwind_GetDataRelBase)
NOTHING(_Unwind_GetTextRelBase)
NOTHING(_Unwind_GetCFA)

HIDDEN uintptr_t _Unwind_GetIPInfo(void *context, int *before) {
    (void)context;
    *before = 0;
    return 0;
}

HIDDEN void _Unwind_SetGR(void *context, int number, uintptr_t value) { (void)context, (void)number, (void)value; }

HIDDEN void _Unwind_SetIP(void *context, uintptr_t value) { (void)context, (void)value; }
