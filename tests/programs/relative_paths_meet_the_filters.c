//= case: included by a relative pattern
//= env: DLIO_TRACE_INCLUDE=data/**
//= events: open=3 close=3 stat=1
//= case: included by an absolute pattern
//= env: DLIO_TRACE_INCLUDE={work}/data/*
//= events: open=3 close=3 stat=1
//= case: excluded
//= env: DLIO_TRACE_EXCLUDE={work}/data
//= events: open=1 close=1 stat=0
//= case: only one layer
//= env: DLIO_TRACE_LAYERS=stdio
//= events: fopen=0
//= processes: 0
//= case: only long calls
//= env: DLIO_TRACE_MIN_US=2000000
//= processes: *
//= events: open=0
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static void opens(const char *path) {
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0);
    close(fd);
}

int main(void) {
    struct stat found;
    syscall(SYS_mkdir, "data", 0700);
    opens("data/one");
    opens("./data//two");
    opens("other");
    EXPECT(stat("data/one", &found) == 0);
    int folder = syscall(SYS_open, "data", O_RDONLY);
    int fd = syscall(SYS_openat, folder, "three", O_CREAT | O_RDWR, 0600);
    syscall(SYS_close, fd);
    syscall(SYS_close, folder);
    opens("data/three");
    return PASSED;
}
