/* Functions that the compiler calls instead of ordinary ones with _FORTIFY_SOURCE, called by these names. */
//= events: open=1 read=1 pread=2 readlink=1 readlinkat=1 fopen=1 fread=2 fgets=2 fprintf=2 dprintf=2 printf=2 fclose=1 close=1 symlink=1 rewind=3 lseek=1
//= bytes: read=2 pread=6 fread=6 fprintf=6 dprintf=4
//= passes: off filtered
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include "expect.h"

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
ssize_t __readlinkat_chk(int, const char *, char *, size_t, size_t);
size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
char *__fgets_chk(char *, size_t, int, FILE *);
char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
int __fprintf_chk(FILE *, int, const char *, ...);
int __printf_chk(int, const char *, ...);
int __dprintf_chk(int, int, const char *, ...);
int __vfprintf_chk(FILE *, int, const char *, va_list);
int __vprintf_chk(int, const char *, va_list);
int __vdprintf_chk(int, int, const char *, va_list);

static void print(FILE *stream, int fd, ...) {
    va_list arguments;
    va_start(arguments, fd);
    EXPECT(__vfprintf_chk(stream, 1, "%d\n", arguments) == 3);
    va_end(arguments);
    va_start(arguments, fd);
    EXPECT(__vdprintf_chk(fd, 1, "%d", arguments) == 2);
    va_end(arguments);
    va_start(arguments, fd);
    EXPECT(__vprintf_chk(1, "%d\n", arguments) == 3);
    va_end(arguments);
}

int main(void) {
    char bytes[64];
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    FILE *stream = fopen("data", "r+");
    EXPECT(__fprintf_chk(stream, 1, "%s", "ab\n") == 3);
    print(stream, fd, 17);
    EXPECT(__dprintf_chk(fd, 1, "%c%s", 'a', "b") == 2);
    EXPECT(__printf_chk(1, "%d %s %f\n", 7, "seven", 7.5) > 0);
    rewind(stream);
    EXPECT(__fread_chk(bytes, 64, 1, 3, stream) == 3 && __fread_unlocked_chk(bytes, 64, 1, 3, stream) == 3);
    rewind(stream);
    EXPECT(__fgets_chk(bytes, 64, 64, stream) && !strcmp(bytes, "ab\n"));
    EXPECT(__fgets_unlocked_chk(bytes, 64, 64, stream) && !strcmp(bytes, "17\n"));
    rewind(stream);
    EXPECT(lseek(fd, 0, SEEK_CUR) == 4);
    EXPECT(__pread_chk(fd, bytes, 3, 0, 64) == 3 && __pread64_chk(fd, bytes, 3, 0, 64) == 3);
    EXPECT(__read_chk(fd, bytes, 3, 64) == 2);
    EXPECT(symlink("data", "link") == 0);
    EXPECT(__readlink_chk("link", bytes, 4, 64) == 4 && __readlinkat_chk(AT_FDCWD, "link", bytes, 4, 64) == 4);
    EXPECT(fclose(stream) == 0 && close(fd) == 0);
    return PASSED;
}
