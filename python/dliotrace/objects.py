"""Records requests to object stores: call `install()` once, as early as possible.

Each attempt of a request is an event of the layer `object`: `object.get`, `put`, `part`, `head`, `list`, `delete`, `copy`,
`begin`, `complete`, `abort`, or `connect` for a failed connection. `file` is `s3://bucket/key`, `pos` the first byte,
`requested` the number of bytes that the response announced, `bytes` the number transferred. A failure has an error number: 404
ENOENT, 403 EACCES, 503 and 429 EBUSY, other 5xx EIO, a lost connection ECONNRESET, a timeout ETIMEDOUT. `args` has `attempt`,
`status`, `first_byte_ns`, `server`, `part`; `broken` is the error number of a body that ended early. An event lasts from
sending the request to the last byte that the program reads. Several can be in flight on one thread: viewers draw them on
parallel tracks.

It covers boto3, botocore, s3transfer, smart_open, aiobotocore, s3fs, fsspec with s3fs, minio, and s3torchconnector (the
program's requests, not the parts the connector fetches). Modules are patched when the program imports them, or now if it already
has; this module imports none of them. Results and exceptions do not change.
"""

from dliotrace import now
from dliotrace._patch import when_imported


def install():
    """Records requests. Has no effect if nothing is recorded, or if called a second time."""
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
