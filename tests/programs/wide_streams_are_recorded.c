//= among: fopen=1 fputwc=3 fputws=1 fwprintf=2 rewind=1 fgetwc=3 fgetws=1 fclose=1
//= passes: off filtered
#include <fcntl.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <wchar.h>
#include "expect.h"

static void print(FILE *stream, ...) {
    va_list arguments;
    va_start(arguments, stream);
    EXPECT(vfwprintf(stream, L"%d\n", arguments) == 2);
    va_end(arguments);
}

int main(void) {
    wchar_t bytes[64];
    syscall(SYS_dup2, syscall(SYS_open, "empty", O_CREAT | O_RDONLY, 0600), 0);
    setlocale(LC_ALL, "C.UTF-8");
    FILE *stream = fopen("data", "w+");
    EXPECT(fputwc(L'a', stream) == L'a' && putwc(L'\u00e9', stream) == L'\u00e9');
    EXPECT(fputws(L"bc\n", stream) >= 0 && fwprintf(stream, L"%d\n", 7) == 2);
    print(stream, 8);
    rewind(stream);
    EXPECT(fgetwc(stream) == L'a' && getwc(stream) == L'\u00e9');
    EXPECT(fgetws(bytes, 64, stream) && !wcscmp(bytes, L"bc\n"));
    /* stdin and stdout are files here whose making is not looked at. */
    EXPECT(getwchar() == WEOF && putwchar(L'x') == L'x');
    EXPECT(fclose(stream) == 0);
    return PASSED;
}
