//= events: mkdir=1 mkdirat=1 creat=1 close=1 rename=1 renameat=2 link=1 linkat=1 unlink=1 unlinkat=2 remove=1 mknod=1 mknodat=1 mkfifo=1 mkfifoat=1 mkdtemp=1 chdir=2 fchdir=1 open=1 opendir=1 readdir=5 closedir=2 fdopendir=1 scandir=4 getdents64=2 rmdir=1
//= on folder/inner: mkdirat=1 rmdir=1
//= on folder: mkdir=1 open=1 opendir=1 readdir=5 closedir=2 chdir=1 fchdir=1 fdopendir=1 scandir=4 getdents64=2
//= passes: off filtered
#define _LARGEFILE64_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include "expect.h"

static int none(const void *entry) { return 0; }

int main(void) {
    char template[] = "XXXXXX", bytes[4096];
    struct dirent **list;
    struct dirent64 **list64;
    EXPECT(mkdir("folder", 0700) == 0);
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    EXPECT(mkdirat(folder, "inner", 0700) == 0);
    EXPECT(close(creat("a", 0600)) == 0);
    EXPECT(rename("a", "b") == 0 && renameat(AT_FDCWD, "b", AT_FDCWD, "c") == 0);
    EXPECT(renameat2(AT_FDCWD, "c", AT_FDCWD, "d", 0) == 0);
    EXPECT(link("d", "e") == 0 && linkat(AT_FDCWD, "d", AT_FDCWD, "f", 0) == 0);
    EXPECT(unlink("d") == 0 && unlinkat(AT_FDCWD, "e", 0) == 0 && remove("f") == 0);
    EXPECT(mknod("g", S_IFREG | 0600, 0) == 0 && mknodat(AT_FDCWD, "h", S_IFREG | 0600, 0) == 0);
    EXPECT(mkfifo("i", 0600) == 0 && mkfifoat(AT_FDCWD, "j", 0600) == 0 && unlinkat(AT_FDCWD, "j", 0) == 0);
    EXPECT(mkdtemp(template));
    EXPECT(getdents64(folder, bytes, sizeof bytes) > 0 && getdents64(folder, bytes, sizeof bytes) == 0);
    DIR *open_folder = opendir("folder");
    EXPECT(readdir(open_folder) && readdir64(open_folder) && readdir(open_folder) && !readdir64(open_folder));
    EXPECT(closedir(open_folder) == 0);
    EXPECT(scandir("folder", &list, (void *)none, NULL) == 0);
    EXPECT(scandir64("folder", &list64, (void *)none, NULL) == 0);
    EXPECT(scandirat(AT_FDCWD, "folder", &list, (void *)none, NULL) == 0);
    EXPECT(scandirat64(AT_FDCWD, "folder", &list64, (void *)none, NULL) == 0);
    EXPECT(rmdir("folder/inner") == 0);
    EXPECT(chdir("folder") == 0 && chdir("..") == 0 && fchdir(folder) == 0);
    open_folder = fdopendir(folder);
    readdir(open_folder);
    EXPECT(closedir(open_folder) == 0);
    return PASSED;
}
