/* Further functions for wide characters: fortified, unlocked, with va_list, on stdin and stdout. */
//= among: fputwc=4 fputws=1 fwprintf=8 fgetwc=4 fgetws=2 fscanf=3 scanf=4
//= bytes: fputwc=5 fputws=3 fwprintf=12 fgetwc=3 fgetws=5 fscanf=5
//= passes: off filtered
#define _GNU_SOURCE
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <wchar.h>
#include "expect.h"

int hard_vfwprintf(FILE *, int, const wchar_t *, va_list) __asm__("__vfwprintf_chk");
int hard_vwprintf(int, const wchar_t *, va_list) __asm__("__vwprintf_chk");
wchar_t *hard_fgetws_unlocked(wchar_t *, size_t, int, FILE *) __asm__("__fgetws_unlocked_chk");
int new_fwscanf(FILE *, const wchar_t *, ...) __asm__("__isoc99_fwscanf");
int new_wscanf(const wchar_t *, ...) __asm__("__isoc99_wscanf");
int new_vfwscanf(FILE *, const wchar_t *, va_list) __asm__("__isoc99_vfwscanf");
int new_vwscanf(const wchar_t *, va_list) __asm__("__isoc99_vwscanf");
int plain_wscanf(const wchar_t *, ...) __asm__("wscanf");
int plain_vfwscanf(FILE *, const wchar_t *, va_list) __asm__("vfwscanf");
int plain_vwscanf(const wchar_t *, va_list) __asm__("vwscanf");

#define WITH_LIST(last, call, result) va_start(arguments, last); EXPECT(call == result); va_end(arguments)

static void print(FILE *stream, ...) {
    va_list arguments;
    WITH_LIST(stream, vfwprintf(stream, L"%d\n", arguments), 2);
    WITH_LIST(stream, hard_vfwprintf(stream, 1, L"%d\n", arguments), 2);
    WITH_LIST(stream, vwprintf(L"%d", arguments), 1);
    WITH_LIST(stream, hard_vwprintf(1, L"%d", arguments), 1);
}

static void scan(FILE *stream, ...) {
    va_list arguments;
    WITH_LIST(stream, plain_vfwscanf(stream, L"%d", arguments), 1);
    WITH_LIST(stream, new_vfwscanf(stream, L"%d", arguments), 1);
    WITH_LIST(stream, plain_vwscanf(L"%d", arguments), -1);
    WITH_LIST(stream, new_vwscanf(L"%d", arguments), -1);
}

int main(void) {
    wchar_t text[64];
    int number;
    /* stdin is an empty file; its creation is not compared. */
    syscall(SYS_dup2, syscall(SYS_open, "empty", O_CREAT | O_RDONLY, 0600), 0);
    setlocale(LC_ALL, "C.UTF-8");
    FILE *stream = fopen("data", "w+");
    EXPECT(fputwc_unlocked(L'\u00e9', stream) == L'\u00e9' && putwc_unlocked(L'b', stream) == L'b');
    EXPECT(fputws_unlocked(L"cd\n", stream) >= 0);
    print(stream, 7);
    print(stream, 8);
    rewind(stream);
    EXPECT(fgetwc_unlocked(stream) == L'\u00e9' && getwc_unlocked(stream) == L'b');
    EXPECT(fgetws_unlocked(text, 64, stream) && !wcscmp(text, L"cd\n"));
    EXPECT(hard_fgetws_unlocked(text, 64, 64, stream) && !wcscmp(text, L"7\n"));
    scan(stream, &number);
    EXPECT(new_fwscanf(stream, L"%d", &number) == 1 && number == 8);
    EXPECT(fclose(stream) == 0);
    EXPECT(new_wscanf(L"%d", &number) == -1 && plain_wscanf(L"%d", &number) == -1);
    EXPECT(getwchar() == WEOF && getwchar_unlocked() == WEOF);
    EXPECT(putwchar(L'x') == L'x' && putwchar_unlocked(L'y') == L'y');
    return PASSED;
}
