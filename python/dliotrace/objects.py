"""Requests to object stores in the trace: call `install()` once, as early as the program can.

Each attempt of a request is an event of the layer `object`: `object.get`, `put`, `part`, `head`, `list`, `delete`, `copy`,
`begin`, `complete`, `abort`, or `connect` for one that found no connection. `file` is `s3://bucket/key`, `pos` the first byte,
`requested` the bytes that the answer spoke of, `bytes` those that came or went, a failure has its error number (404 ENOENT,
403 EACCES, 503 and 429 EBUSY, other 5xx EIO, a lost connection ECONNRESET, none for too long ETIMEDOUT). `args` has `attempt`,
`status`, `first_byte_ns`, `server`, `part`; `broken` is the error number of a body that ended early. An event lasts from the
sending to the last byte that the program took. Many may be under way on one thread: viewers draw them beside one another.

Covered are boto3, botocore, s3transfer, smart_open, aiobotocore, s3fs and fsspec over it, minio, and s3torchconnector (as the
program asks; the parts it fetches stay inside). What the program imports is patched, now or when it does; nothing is imported
here. Results and exceptions stay the program's.
"""

from dliotrace import now
from dliotrace._patch import when_imported


def install():
    """Puts requests into the trace. A second call changes nothing, and so does one where nothing is recorded."""
    if not now():
        return
    from dliotrace import _objects_botocore, _objects_others

    for module, patch in (
        ("botocore.endpoint", _objects_botocore.endpoint),
        ("aiobotocore.endpoint", _objects_botocore.aio_endpoint),
        ("aiobotocore.response", _objects_botocore.aio_response),
        ("minio.api", _objects_others.minio),
        ("s3torchconnector._s3client._s3client", _objects_others.s3torchconnector),
    ):
        when_imported(module, _guarded(patch))


def _guarded(patch):
    def patched(module):
        try:
            patch(module)
        except AttributeError:  # a version with another name for it: not recorded
            pass

    return patched
