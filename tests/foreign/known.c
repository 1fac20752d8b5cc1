/* A program whose every call is known, for comparing what tracers of different kinds say of it: known FOLDER.
 * The folder must be new and empty; FOLDER/kept stays behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[65536];

static FILE *stream(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file)
        abort();
    return file;
}

static void streams(const char *items, const char *text) {
    char line[100];
    FILE *file = stream(items, "w");
    for (int i = 0; i < 10; i++)
        fwrite(block, 4096, 2, file);
    fclose(file);
    file = stream(items, "r");
    for (int i = 0; i < 20; i++)
        if (fread(block, 4096, 1, file) != 1)
            abort();
    fclose(file);
    file = stream(text, "w");
    for (int i = 0; i < 5; i++) {
        fwrite("hello world\n", 1, 12, file);
        fputc('z', file);
    }
    fclose(file);
    file = stream(text, "r");
    while (fgets(line, sizeof line, file))
        ;
    fclose(file);
    file = stream(text, "r");
    while (fgetc(file) != EOF)
        ;
    fclose(file);
}

static int descriptors(const char *items, const char *odd) {
    struct iovec list[2] = {{block, 10}, {block, 20}};
    struct stat facts;
    int fd = open(odd, O_CREAT | O_RDWR | O_TRUNC, 0644);
    ssize_t moved = write(fd, block, 5000) + pwrite(fd, block, 500, 10000) + writev(fd, list, 2);
    lseek(fd, 0, SEEK_SET);
    moved += read(fd, block, 1000) + pread(fd, block, 300, 20);
    fsync(fd);
    fstat(fd, &facts);
    int from = open(items, O_RDONLY);
    moved += copy_file_range(from, NULL, fd, NULL, 700, 0);
    close(fd);
    if (moved != 5000 + 500 + 30 + 1000 + 300 + 700)
        abort();
    return from;
}

/* A child that uses what its parent opened. */
static void child(int from, const char *text) {
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 100; i++)
            if (pread(from, block, 1024, i) != 1024)
                abort();
        close(from);
        int fd = open(text, O_RDONLY);
        if (read(fd, block, 50) != 50)
            abort();
        close(fd);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    close(from);
}

int main(int count, char **words) {
    const char *folder = count > 1 ? words[1] : ".";
    char items[4096], text[4096], odd[4096], kept[4096];
    snprintf(items, sizeof items, "%s/items", folder);
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(odd, sizeof odd, "%s/odd \"\xc3\xa4\xff<1>", folder);
    snprintf(kept, sizeof kept, "%s/kept", folder);
    streams(items, text);
    child(descriptors(items, odd), text);
    int missing = open("/nonexistent/file", O_RDONLY);
    DIR *list = opendir(folder);
    while (readdir(list))
        ;
    closedir(list);
    rename(text, kept);
    unlink(odd);
    unlink(items);
    return missing == -1 ? 42 : 1;
}
