/* Wide characters count with the bytes that the locale encodes them to. */
//= among: fopen=2 fputwc=3 fputws=1 fwprintf=5 rewind=2 fgetwc=3 ungetc=1 fgetws=2 fscanf=2 fwrite=2 fread=3 fclose=2
//= bytes: fputwc=4 fputws=4 fwprintf=11 fgetwc=5 fgetws=6 fscanf=3 fwrite=8 fread=8
//= positions fputws: 3
//= positions fgetws: 3 7
//= passes: off filtered
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <wchar.h>
#include "expect.h"

int hard_fwprintf(FILE *, int, const wchar_t *, ...) __asm__("__fwprintf_chk");
int hard_wprintf(int, const wchar_t *, ...) __asm__("__wprintf_chk");
wchar_t *hard_fgetws(wchar_t *, size_t, int, FILE *) __asm__("__fgetws_chk");
int plain_fwscanf(FILE *, const wchar_t *, ...) __asm__("fwscanf");

static void print(FILE *stream, ...) {
    va_list arguments;
    va_start(arguments, stream);
    EXPECT(vfwprintf(stream, L"%d\n", arguments) == 2);
    va_end(arguments);
}

int main(void) {
    wchar_t bytes[64];
    int number;
    setlocale(LC_ALL, "C.UTF-8");
    FILE *stream = fopen("data", "w+");
    EXPECT(fputwc(L'a', stream) == L'a' && putwc(L'\u00e9', stream) == L'\u00e9');
    EXPECT(fputws(L"b\u00e9\n", stream) >= 0 && fwprintf(stream, L"%d\n", 7) == 2);
    print(stream, 8);
    EXPECT(hard_fwprintf(stream, 1, L"%d\n", 9) == 2);
    rewind(stream);
    EXPECT(fgetwc(stream) == L'a' && getwc(stream) == L'\u00e9' && ungetwc(L'\u00e9', stream) == L'\u00e9');
    EXPECT(getwc(stream) == L'\u00e9');
    EXPECT(fgetws(bytes, 64, stream) && !wcscmp(bytes, L"b\u00e9\n"));
    EXPECT(hard_fgetws(bytes, 64, 64, stream) && !wcscmp(bytes, L"7\n"));
    EXPECT(fwscanf(stream, L"%d", &number) == 1 && number == 8 && plain_fwscanf(stream, L"%d", &number) == 1 && number == 9);
    EXPECT(fclose(stream) == 0);
    stream = fopen("words", "w+");
    EXPECT(putw(5, stream) == 0 && putw(6, stream) == 0);
    rewind(stream);
    EXPECT(getw(stream) == 5 && getw(stream) == 6 && getw(stream) == EOF);
    EXPECT(fclose(stream) == 0);
    /* stdin and stdout are files here; their creation is not compared. */
    EXPECT(putwchar(L'x') == L'x' && wprintf(L"%d", 12) == 2 && hard_wprintf(1, L"%ls", L"abc") == 3);
    return PASSED;
}
