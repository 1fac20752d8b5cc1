/* Records the program's calls on a stream, not the system calls of the stream. */
//= compile: -O0
//= events: fopen=1 setvbuf=1 fwrite=2 fputs=2 fputc=5 fflush=3 ftell=2 rewind=1 fgetpos=1 fsetpos=1 fseek=2 fread=2 fgets=2 getline=1 getdelim=2 fgetc=4 ungetc=1 fclose=1
//= bytes: fwrite=7 fputs=6 fputc=5 fread=7 fgets=11 getline=8 getdelim=7 fgetc=4
//= positions fwrite: 0 4
//= positions fputs: 7 9
//= positions fread: 0 4
//= positions fgets: 7 ?
//= positions getline: 10
//= positions fgetc: 0 1 1 2
//= passes: off filtered
#include <fcntl.h>
#include <stdio.h>
#include "expect.h"

int _IO_getc(FILE *), _IO_putc(int, FILE *);
ssize_t __getdelim(char **, size_t *, int, FILE *);

int main(void) {
    char bytes[64], *line = NULL;
    size_t room = 0;
    fpos_t place;
    FILE *stream = fopen("data", "w+");
    EXPECT(setvbuf(stream, NULL, _IOFBF, 8192) == 0);
    EXPECT(fwrite("abcd", 1, 4, stream) == 4 && fwrite_unlocked("ef\n", 3, 1, stream) == 1);
    EXPECT(fputs("hi", stream) >= 0 && fputs_unlocked("\n12 ", stream) >= 0);
    EXPECT(fputc('3', stream) == '3' && putc(' ', stream) == ' ' && _IO_putc('4', stream) == '4');
    EXPECT(fputc_unlocked('5', stream) == '5' && putc_unlocked('\n', stream) == '\n');
    EXPECT(fflush(stream) == 0 && fflush_unlocked(stream) == 0 && fflush(NULL) == 0);
    EXPECT(ftell(stream) == 18);
    rewind(stream);
    EXPECT(fread(bytes, 1, 4, stream) == 4 && fread_unlocked(bytes, 1, 3, stream) == 3);
    EXPECT(fgets(bytes, 64, stream) && !strcmp(bytes, "hi\n"));
    EXPECT(fgetpos(stream, &place) == 0);
    EXPECT(fseeko(stream, 10, SEEK_SET) == 0 && getline(&line, &room, stream) == 8);
    EXPECT(fsetpos(stream, &place) == 0 && fgets_unlocked(bytes, 64, stream) && !strcmp(bytes, "12 3 45\n"));
    EXPECT(ftello(stream) == 18);
    EXPECT(fseek(stream, 0, SEEK_SET) == 0);
    EXPECT(fgetc(stream) == 'a' && getc(stream) == 'b' && ungetc('b', stream) == 'b' && _IO_getc(stream) == 'b');
    EXPECT(fgetc_unlocked(stream) == 'c');
    EXPECT(getdelim(&line, &room, '\n', stream) == 4 && __getdelim(&line, &room, '\n', stream) == 3);
    EXPECT(fclose(stream) == 0);
    return PASSED;
}
