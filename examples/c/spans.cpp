// Spans as C++ scopes: `dlio trace -- ./spans FILE`.
#include "dliotrace.h"
#include <cstdio>

static long read_sample(std::FILE *file, char *into, std::size_t size) {
    static dlio_site site = DLIO_SITE("fetch", "data");
    dlio::Span fetch(site);
    long bytes = static_cast<long>(std::fread(into, 1, size, file));
    fetch.set("bytes", static_cast<int64_t>(bytes));
    return bytes;
}

int main(int argc, char **argv) {
    static char sample[65536];
    std::FILE *file = std::fopen(argc > 1 ? argv[1] : argv[0], "rb");
    if (!file) {
        std::perror("fopen");
        return 1;
    }
    {
        dlio::Span epoch("epoch", "pipeline");
        epoch.steps(0, INT32_MIN);
        for (int step = 0; step < 4 && read_sample(file, sample, sizeof sample) > 0; step++) {
            dlio::Span compute("forward", "compute");
            compute.steps(0, step);
        }
    }
    std::fclose(file);
    return 0;
}
