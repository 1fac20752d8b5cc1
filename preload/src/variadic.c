/* C-variadic functions, which Rust cannot define. Each collects its arguments and continues in Rust, in `stdio.rs` or
 * `process.rs`. The exported names are defined there, too, because a Rust library exports only names defined in Rust. */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <wchar.h>

int dlio_fprintf(FILE *stream, const char *format, va_list args);
int dlio_printf(const char *format, va_list args);
int dlio_dprintf(int fd, const char *format, va_list args);
int dlio_fscanf(FILE *stream, const char *format, va_list args);
int dlio_scanf(const char *format, va_list args);
int dlio_fwprintf(FILE *stream, const wchar_t *format, va_list args);
int dlio_wprintf(const wchar_t *format, va_list args);
int dlio_fwprintf_chk(FILE *stream, int flag, const wchar_t *format, va_list args);
int dlio_wprintf_chk(int flag, const wchar_t *format, va_list args);
int dlio_fwscanf(FILE *stream, const wchar_t *format, va_list args);
int dlio_wscanf(const wchar_t *format, va_list args);
int dlio_isoc99_fwscanf(FILE *stream, const wchar_t *format, va_list args);
int dlio_isoc99_wscanf(const wchar_t *format, va_list args);
int dlio_isoc23_fwscanf(FILE *stream, const wchar_t *format, va_list args);
int dlio_isoc23_wscanf(const wchar_t *format, va_list args);
int dlio_fprintf_chk(FILE *stream, int flag, const char *format, va_list args);
int dlio_printf_chk(int flag, const char *format, va_list args);
int dlio_dprintf_chk(int fd, int flag, const char *format, va_list args);
int dlio_isoc99_fscanf(FILE *stream, const char *format, va_list args);
int dlio_isoc99_scanf(const char *format, va_list args);
int dlio_isoc23_fscanf(FILE *stream, const char *format, va_list args);
int dlio_isoc23_scanf(const char *format, va_list args);
int dlio_execl(const char *path, char *const argv[], char *const envp[]);
int dlio_execlp(const char *file, char *const argv[]);
extern char **environ;

#define GATHERED(name, last, ...)                  \
    {                                              \
        va_list args;                              \
        va_start(args, last);                      \
        int result = dlio_##name(__VA_ARGS__, args); \
        va_end(args);                              \
        return result;                             \
    }

int dlio_variadic_fprintf(FILE *stream, const char *format, ...) GATHERED(fprintf, format, stream, format)
int dlio_variadic_printf(const char *format, ...) GATHERED(printf, format, format)
int dlio_variadic_dprintf(int fd, const char *format, ...) GATHERED(dprintf, format, fd, format)
int dlio_variadic_fscanf(FILE *stream, const char *format, ...) GATHERED(fscanf, format, stream, format)
int dlio_variadic_scanf(const char *format, ...) GATHERED(scanf, format, format)
int dlio_variadic_fwprintf(FILE *stream, const wchar_t *format, ...) GATHERED(fwprintf, format, stream, format)
int dlio_variadic_fprintf_chk(FILE *stream, int flag, const char *format, ...)
    GATHERED(fprintf_chk, format, stream, flag, format)
int dlio_variadic_printf_chk(int flag, const char *format, ...) GATHERED(printf_chk, format, flag, format)
int dlio_variadic_dprintf_chk(int fd, int flag, const char *format, ...)
    GATHERED(dprintf_chk, format, fd, flag, format)
int dlio_variadic_isoc99_fscanf(FILE *stream, const char *format, ...)
    GATHERED(isoc99_fscanf, format, stream, format)
int dlio_variadic_isoc99_scanf(const char *format, ...) GATHERED(isoc99_scanf, format, format)

int dlio_variadic_isoc23_fscanf(FILE *stream, const char *format, ...)
    GATHERED(isoc23_fscanf, format, stream, format)
int dlio_variadic_isoc23_scanf(const char *format, ...) GATHERED(isoc23_scanf, format, format)

int dlio_variadic_wprintf(const wchar_t *format, ...) GATHERED(wprintf, format, format)
int dlio_variadic_fwprintf_chk(FILE *stream, int flag, const wchar_t *format, ...)
    GATHERED(fwprintf_chk, format, stream, flag, format)
int dlio_variadic_wprintf_chk(int flag, const wchar_t *format, ...) GATHERED(wprintf_chk, format, flag, format)
int dlio_variadic_fwscanf(FILE *stream, const wchar_t *format, ...) GATHERED(fwscanf, format, stream, format)
int dlio_variadic_wscanf(const wchar_t *format, ...) GATHERED(wscanf, format, format)
int dlio_variadic_isoc99_fwscanf(FILE *stream, const wchar_t *format, ...)
    GATHERED(isoc99_fwscanf, format, stream, format)
int dlio_variadic_isoc99_wscanf(const wchar_t *format, ...) GATHERED(isoc99_wscanf, format, format)
int dlio_variadic_isoc23_fwscanf(FILE *stream, const wchar_t *format, ...)
    GATHERED(isoc23_fwscanf, format, stream, format)
int dlio_variadic_isoc23_wscanf(const wchar_t *format, ...) GATHERED(isoc23_wscanf, format, format)

/* Arguments of execl and similar functions, counted and laid out as an array on the stack: nothing may be allocated in the child
 * of a vfork. */
#define LISTED(first, last, list)                                       \
    size_t count = 1;                                                   \
    va_list args;                                                       \
    va_start(args, last);                                               \
    while (va_arg(args, char *) != NULL) count++;                       \
    va_end(args);                                                       \
    char *list[count + 1];                                              \
    va_start(args, last);                                               \
    list[0] = (char *)first;                                            \
    for (size_t i = 1; i <= count; i++) list[i] = va_arg(args, char *)

int dlio_variadic_execl(const char *path, const char *arg, ...) {
    if (arg == NULL) return dlio_execl(path, (char *const[]){NULL}, environ);
    LISTED(arg, arg, list);
    va_end(args);
    return dlio_execl(path, list, environ);
}

int dlio_variadic_execlp(const char *file, const char *arg, ...) {
    if (arg == NULL) return dlio_execlp(file, (char *const[]){NULL});
    LISTED(arg, arg, list);
    va_end(args);
    return dlio_execlp(file, list);
}

int dlio_variadic_execle(const char *path, const char *arg, ...) {
    LISTED(arg, arg, list);
    char *const *envp = va_arg(args, char *const *);
    va_end(args);
    return dlio_execl(path, list, envp);
}
