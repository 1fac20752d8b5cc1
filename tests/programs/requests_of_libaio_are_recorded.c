/* A request is one event, from its submission until its result is fetched. */
//= compile: -laio
//= events: open=1 close=1 aio_read_done=4 aio_write_done=2 aio_fsync_done=1 aio_read=1 aio_cancel=1
//= bytes: aio_read_done=160 aio_write_done=350
//= on data: open=1 close=1 aio_read_done=4 aio_write_done=2 aio_fsync_done=1
//= positions aio_write_done: 0 100
//= positions aio_read_done: 50 60 0 10
//= passes: off filtered
#include <fcntl.h>
#include <libaio.h>
#include <sys/uio.h>
#include "expect.h"

static char bytes[512];
static io_context_t context;

static void fetch(struct iocb *request, long result) {
    struct io_event event;
    EXPECT(io_getevents(context, 1, 1, &event, NULL) == 1);
    EXPECT(event.obj == request && event.data == request->data && (long)event.res == result);
}

static void run(struct iocb *request, long result) {
    struct iocb *list[] = {request};
    EXPECT(io_submit(context, 1, list) == 1);
    fetch(request, result);
}

int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    struct iocb a, b, *both[] = {&a, &b};
    struct iovec parts[] = {{bytes, 100}, {bytes + 100, 150}};
    struct io_event events[2];
    EXPECT(io_setup(8, &context) == 0);
    io_prep_pwrite(&a, fd, bytes, 100, 0);
    a.data = &b;
    run(&a, 100);
    io_prep_pwritev(&a, fd, parts, 2, 100);
    run(&a, 250);
    io_prep_fdsync(&a, fd);
    run(&a, 0);
    io_prep_pread(&a, fd, bytes, 10, 50);
    run(&a, 10);
    io_prep_preadv(&a, fd, parts, 2, 60);
    a.u.c.nbytes = 1;
    run(&a, 100);
    // Two requests in one call, and both results in one call.
    io_prep_pread(&a, fd, bytes, 10, 0);
    io_prep_pread(&b, fd, bytes, 40, 10);
    EXPECT(io_submit(context, 2, both) == 2);
    EXPECT(io_pgetevents(context, 2, 2, events, NULL, NULL) == 2);
    // Invalid requests, and invalid addresses.
    io_prep_pread(&a, -1, bytes, 10, 0);
    errno = 0;
    EXPECT(io_submit(context, 1, both) == -EBADF && errno == 0);
    struct iocb **volatile nowhere = (struct iocb **)8;
    EXPECT(io_submit(context, 1, nowhere) == -EFAULT);
    both[0] = (struct iocb *)16;
    EXPECT(io_submit(context, 1, both) == -EFAULT && errno == 0);
    EXPECT(io_cancel(context, &a, events) == -EINVAL);
    EXPECT(close(fd) == 0 && io_destroy(context) == 0);
    return PASSED;
}
