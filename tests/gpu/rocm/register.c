/* A library in place of rocprofiler-register, to which the libraries of ROCm pass their functions. As that, it loads
 * rocprofiler-sdk if there is a tool, and ends the program if it then finds no rocprofiler-sdk. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rocprofiler_register_library_api_table(const char *name, void *import, uint32_t version, void **tables, uint64_t count, uint64_t *id) {
    const char *libraries = getenv("ROCP_TOOL_LIBRARIES");
    void *tool = dlsym(RTLD_DEFAULT, "rocprofiler_configure");
    const char *path = getenv("ROCPROFILER_REGISTER_LIBRARY");
    if (!tool && !(libraries && *libraries) && !path) return 1;
    void *function = dlsym(RTLD_DEFAULT, "rocprofiler_set_api_table");
    if (!function) {
        void *sdk = dlopen(path ? path : "librocprofiler-sdk.so", RTLD_GLOBAL | RTLD_LAZY);
        function = sdk ? dlsym(sdk, "rocprofiler_set_api_table") : NULL;
    }
    if (!function) fprintf(stderr, "rocprofiler_set_api_table not found\n"), abort();
    return ((int (*)(const char *, uint64_t, uint64_t, void **, uint64_t))function)(name, version, 0, tables, count);
}
