/* printf and scanf under all their names, and streams that are not files. The output is compared with the untraced
 * run. */
//= compile: -O0
//= events: lseek=1 setvbuf=3 fopen=1 fprintf=2 printf=2 dprintf=2 open=1 puts=1 fputc=2 fscanf=3 rewind=1 fclose=5 fdopen=1 freopen=1 tmpfile=1 open_memstream=1 fmemopen=1 fgetc=3 scanf=3
//= bytes: fprintf=6 dprintf=4 fscanf=6
//= positions fscanf: 0 3 0
//= passes: off filtered
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include "expect.h"

int plain_fscanf(FILE *, const char *, ...) __asm__("fscanf");
int new_fscanf(FILE *, const char *, ...) __asm__("__isoc99_fscanf");
int new_vfscanf(FILE *, const char *, va_list) __asm__("__isoc99_vfscanf");
int plain_vfscanf(FILE *, const char *, va_list) __asm__("vfscanf");
int plain_scanf(const char *, ...) __asm__("scanf");
int new_scanf(const char *, ...) __asm__("__isoc99_scanf");
int plain_vscanf(const char *, va_list) __asm__("vscanf");
int new_vscanf(const char *, va_list) __asm__("__isoc99_vscanf");

static void print(FILE *stream, int fd, ...) {
    va_list arguments;
#define WITH_LIST(last, call) va_start(arguments, last); EXPECT(call > 0); va_end(arguments)
    WITH_LIST(fd, vfprintf(stream, "%d\n", arguments));
    WITH_LIST(fd, vdprintf(fd, "%d", arguments));
    WITH_LIST(fd, vprintf("%d\n", arguments));
}

static int scan(FILE *stream, ...) {
    va_list arguments;
    WITH_LIST(stream, new_vfscanf(stream, "%d", arguments));
    return 1;
}

static void scan_input(int none, ...) {
    va_list arguments;
    va_start(arguments, none);
    EXPECT(plain_vscanf("%d", arguments) == -1 && new_vscanf("%d", arguments) == -1);
    va_end(arguments);
}

int main(void) {
    char bytes[64], *memory;
    size_t size;
    int one, two, three;
    /* stdin is an empty file; its creation is not compared. */
    syscall(SYS_dup2, syscall(SYS_open, "empty", O_CREAT | O_RDONLY, 0600), 0);
    FILE *stream = fopen("data", "w+");
    int fd = open("other", O_CREAT | O_RDWR, 0600);
    EXPECT(fprintf(stream, "%d %s", 1, "2 ") == 4);
    print(stream, fd, 7);
    EXPECT(dprintf(fd, "%d %d", 8, 9) == 3);
    EXPECT(printf("%d %s %.1f\n", 1, "two", 3.0) > 0 && puts("three") > 0);
    EXPECT(putchar('x') == 'x' && putchar_unlocked('\n') == '\n');
    rewind(stream);
    EXPECT(new_fscanf(stream, "%d %d", &one, &two) == 2 && one == 1 && two == 2);
    EXPECT(scan(stream, &three) == 1 && three == 7);
    EXPECT(getchar() == -1 && getchar_unlocked() == -1 && getc_unlocked(stdin) == -1);
    EXPECT(new_scanf("%d", &one) == -1);
    EXPECT(fclose(stream) == 0);

    EXPECT(lseek(fd, 0, SEEK_SET) == 0);
    stream = fdopen(fd, "r+");
    EXPECT(plain_fscanf(stream, "%1d", &three) == 1 && three == 7);
    stream = freopen("data", "r", stream);
    setbuf(stream, NULL);
    setbuffer(stream, NULL, 0);
    setlinebuf(stream);
    EXPECT(stream && fclose(stream) == 0);
    stream = tmpfile();
    EXPECT(stream && fclose(stream) == 0);
    stream = open_memstream(&memory, &size);
    EXPECT(stream && fclose(stream) == 0);
    stream = fmemopen(bytes, 64, "w");
    EXPECT(stream && fclose(stream) == 0);
    scan_input(0, &one);
    return PASSED;
}
