/* A request is one event when it is submitted, and another one when its result is fetched. */
//= compile: -D_LARGEFILE64_SOURCE
//= events: open=1 close=1 aio_read=2 aio_write=2 aio_fsync=2 aio_suspend=>=6 aio_cancel=2 lio_listio=2 aio_read_done=4 aio_write_done=2 aio_fsync_done=2
//= bytes: aio_read_done=40 aio_write_done=200
//= on data: open=1 close=1 aio_read=2 aio_write=2 aio_fsync=2 aio_cancel=2 aio_read_done=4 aio_write_done=2 aio_fsync_done=2
//= positions aio_write: 0 100
//= positions aio_read_done: 50 60 0 0
//= passes: off filtered
#include <aio.h>
#include <fcntl.h>
#include "expect.h"

static char bytes[256];


int main(void) {
    int fd = open("data", O_CREAT | O_RDWR, 0600);
    struct aiocb a = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = 100, .aio_offset = 0};
    struct aiocb64 b = {.aio_fildes = fd, .aio_buf = bytes, .aio_nbytes = 100, .aio_offset = 100};
    const struct aiocb *wait[] = {&a};
    const struct aiocb64 *wait64[] = {&b};
#define ENDS(size) \
    do aio_suspend(wait, 1, NULL); while (aio_error(&a) == EINPROGRESS); \
    do aio_suspend64(wait64, 1, NULL); while (aio_error64(&b) == EINPROGRESS); \
    EXPECT(aio_return(&a) == size && aio_return64(&b) == size)
    EXPECT(aio_write(&a) == 0 && aio_write64(&b) == 0);
    ENDS(100);
    EXPECT(aio_fsync(O_SYNC, &a) == 0 && aio_fsync64(O_SYNC, &b) == 0);
    ENDS(0);
    a.aio_nbytes = b.aio_nbytes = 10;
    a.aio_offset = 50;
    b.aio_offset = 60;
    EXPECT(aio_read(&a) == 0 && aio_read64(&b) == 0);
    ENDS(10);
    a.aio_lio_opcode = b.aio_lio_opcode = LIO_READ;
    a.aio_offset = b.aio_offset = 0;
    struct aiocb *list[] = {&a};
    struct aiocb64 *list64[] = {&b};
    EXPECT(lio_listio(LIO_WAIT, list, 1, NULL) == 0 && lio_listio64(LIO_WAIT, list64, 1, NULL) == 0);
    EXPECT(aio_return(&a) == 10 && aio_return64(&b) == 10);
    EXPECT(aio_cancel(fd, NULL) == AIO_ALLDONE && aio_cancel64(fd, NULL) == AIO_ALLDONE);
    EXPECT(close(fd) == 0);
    return PASSED;
}
