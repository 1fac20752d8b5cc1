/* The C library walks directory trees and changes its working directory without a visible call. */
//= events: open=8 close=8
//= on /walk/one/seen: open=4 close=4
//= on /walk/two/seen: open=4 close=4
#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static void visit(const char *name) {
    if (strcmp(name, "file")) return;
    int fd = open("seen", O_CREAT | O_RDWR, 0600);
    EXPECT(fd >= 0 && close(fd) == 0);
}

static int visited(const char *path, const struct stat *found, int kind, struct FTW *where) {
    (void)found;
    if (kind == FTW_F) visit(path + where->base);
    return 0;
}

static int visited64(const char *path, const struct stat64 *found, int kind, struct FTW *where) {
    (void)found;
    if (kind == FTW_F) visit(path + where->base);
    return 0;
}

static void make(const char *folder, const char *file) {
    EXPECT(syscall(SYS_mkdir, folder, 0700) == 0);
    if (file) EXPECT(syscall(SYS_close, syscall(SYS_open, file, O_CREAT | O_WRONLY, 0600)) == 0);
}

int main(void) {
    char *paths[] = {"walk", NULL};
    make("walk", NULL);
    make("walk/one", "walk/one/file");
    make("walk/two", "walk/two/file");
    EXPECT(nftw("walk", visited, 8, FTW_CHDIR | FTW_PHYS) == 0);
    EXPECT(nftw64("walk", visited64, 8, FTW_CHDIR | FTW_PHYS) == 0);

    FTS *walk = fts_open(paths, FTS_PHYSICAL, NULL);
    EXPECT(walk && fts_children(walk, 0));
    for (FTSENT *entry; (entry = fts_read(walk));)
        if (entry->fts_info == FTS_F) visit(entry->fts_name);
    EXPECT(fts_close(walk) == 0);

    FTS64 *walk64 = fts64_open(paths, FTS_PHYSICAL, NULL);
    EXPECT(walk64 && fts64_children(walk64, 0));
    for (FTSENT64 *entry; (entry = fts64_read(walk64));)
        if (entry->fts_info == FTS_F) visit(entry->fts_name);
    EXPECT(fts64_close(walk64) == 0);
    return PASSED;
}
