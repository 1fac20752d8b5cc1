/* Requests that a library reports when they have finished: files, positions, bytes and errors are those of calls,
 * although requests overlap on one thread and one is reported on a different thread than it started on. */
//= events: object.get=5 object.head=1 object.part=1 object.complete=1
//= on /bucket/data/a: object.get=4 object.head=1
//= on /bucket/data/b.jar: object.part=1 object.complete=1 object.get=1
//= bytes: object.get=12388 object.part=10
//= positions object.part: 4096
//= results object.head: -2
#include "../../tracer/include/dliotrace.h"
#include <errno.h>
#include <pthread.h>
#include "expect.h"

#define OBJECT "s3://bucket/data/a"

static dlio_io moved;

static void *elsewhere(void *unused) {
    dlio_io_done(&moved, OBJECT, 4096, 0);
    return NULL;
}

int main(void) {
    pthread_t thread;
    dlio_io first = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 0, 4096);
    moved = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 4096, 4096);
    dlio_io third = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 8192, 4096);
    dlio_io head = dlio_io_begun(DLIO_OBJECT_HEAD, dlio_now(), -1, 0);
    pthread_create(&thread, NULL, elsewhere, NULL);
    pthread_join(thread, NULL);
    dlio_io_done(&first, OBJECT, 4096, 0);
    dlio_io_done(&third, OBJECT, 0, EBUSY);
    dlio_io_done(&head, OBJECT, 0, ENOENT);
    /* Files with this extension are skipped, objects are not. */
    dlio_io part = dlio_io_begun(DLIO_OBJECT_PART, dlio_now(), 4096, 10);
    dlio_io_done(&part, "s3://bucket/data/b.jar", 10, 0);
    dlio_io complete = dlio_io_begun(DLIO_OBJECT_COMPLETE, dlio_now(), -1, 0);
    dlio_io_done(&complete, "s3://bucket/data/b.jar", 0, 0);
    /* A request that is reported twice is one event. Without a start, or with an operation of another kind, it is not an event. */
    third = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 0, 4096);
    dlio_io_done(&third, OBJECT, 4096, 0);
    dlio_io_done(&third, OBJECT, 4096, 0);
    dlio_io never = dlio_io_begun(DLIO_OBJECT_GET, 0, 0, 4096);
    dlio_io_done(&never, OBJECT, 4096, 0);
    dlio_io foreign = dlio_io_begun(20, dlio_now(), 0, 4096);
    dlio_io_done(&foreign, OBJECT, 4096, 0);
    dlio_io last = dlio_io_begun(DLIO_OBJECT_GET, dlio_now(), 0, 100);
    dlio_io_done(&last, "s3://bucket/data/b.jar", 100, 0);
    return PASSED;
}
