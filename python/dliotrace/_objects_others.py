"""Records requests of clients without botocore: MinIO's client and PyTorch's S3 connector."""

import functools

from dliotrace._patch import replace
from dliotrace._requests import Told, number_of_status, watch

_METHODS = {"GET": "get", "PUT": "put", "HEAD": "head", "DELETE": "delete"}


def minio(module):
    """minio.api: one event per request, even if its HTTP library sends it several times"""
    replace(module.Minio, "_url_open", _minio_request)


def _minio_request(original):
    @functools.wraps(original)
    def _url_open(self, method, *args, **kwargs):
        told = _minio_begun(method, args, kwargs)
        if told is None:
            return original(self, method, *args, **kwargs)
        try:
            response = original(self, method, *args, **kwargs)
        except BaseException as error:
            status = getattr(getattr(error, "response", None), "status", None) or getattr(error, "_status_code", None)
            if isinstance(status, int):
                told.answered(status)
                told.end(number_of_status(status))
            else:
                told.failed(error)
            raise
        reads = told.operation == "get" and kwargs.get("preload_content", True) is False
        length = response.headers.get("content-length")
        told.answered(response.status, int(length or 0) if told.operation == "get" else None)
        if reads and told.requested:
            watch(response, told)
            return response
        told.moved = told.requested if told.operation in ("get", "put", "part") else 0
        told.end()
        return response

    return _url_open


def _minio_begun(method, args, kwargs):
    try:
        named = dict(zip(("region", "bucket_name", "object_name", "body", "headers", "query_params"), args)) | kwargs
        bucket, key = named.get("bucket_name"), named.get("object_name")
        query, body = named.get("query_params") or {}, named.get("body")
        operation, part = _METHODS.get(method, "other"), query.get("partNumber")
        if not key:
            operation = "list" if method == "GET" else "other" if method == "PUT" else operation
        elif "uploads" in query:
            operation = "begin"
        elif "uploadId" in query:
            operation = {"PUT": "part", "POST": "complete", "DELETE": "abort"}.get(method, "list")
        pos, requested = None, 0
        if operation == "get":
            bounds = ((named.get("headers") or {}).get("Range") or "bytes=0-").removeprefix("bytes=").partition("-")
            pos = int(bounds[0]) if bounds[0] else None
        elif operation in ("put", "part"):
            pos, requested = (0 if operation == "put" else None), len(body or b"")
        url = f"s3://{bucket}/{key}" if key else f"s3://{bucket or ''}"
        return Told(operation, url, pos, requested, part=int(part) if part else None)
    except Exception:  # requests of another version: not recorded
        return None


def s3torchconnector(module):
    """s3torchconnector._s3client._s3client: the program's requests, not the parts that the connector fetches"""
    client = module.S3Client
    replace(client, "_get_object_stream", _stream_of_connector)
    replace(client, "put_object", _writer_of_connector)
    for name in ("head_object", "delete_object"):
        replace(client, name, functools.partial(_plain_of_connector, name.partition("_")[0]))


def _stream_of_connector(original):
    @functools.wraps(original)
    def _get_object_stream(self, bucket, key, start=None, end=None):
        requested = end - (start or 0) if end is not None else 0
        told = Told("get", f"s3://{bucket}/{key}", start or 0, requested)
        try:
            return _Chunks(original(self, bucket, key, start, end), told)
        except BaseException as error:
            told.failed(error)
            raise

    return _get_object_stream


def _writer_of_connector(original):
    @functools.wraps(original)
    def put_object(self, bucket, key, *args, **kwargs):
        told = Told("put", f"s3://{bucket}/{key}", 0)
        try:
            writer = original(self, bucket, key, *args, **kwargs)
        except BaseException as error:
            told.failed(error)
            raise
        writer.stream = _Sent(writer.stream, told)
        return writer

    return put_object


def _plain_of_connector(operation, original):
    @functools.wraps(original)
    def request(self, bucket, key, *args, **kwargs):
        told = Told(operation, f"s3://{bucket}/{key}")
        try:
            return original(self, bucket, key, *args, **kwargs)
        except BaseException as error:
            told.failed(error)
            raise
        finally:
            told.end()

    return request


class _Chunks:
    """A readable stream of the connector: an iterator over chunks."""

    def __init__(self, stream, told):
        self._stream, self._told = stream, told

    def __iter__(self):
        return self

    def __next__(self):
        try:
            chunk = next(self._stream)
        except StopIteration:
            self._told.end()
            raise
        except BaseException as error:
            self._told.failed(error)
            raise
        if not self._told.moved:
            self._told.answered()
        self._told.took(len(chunk), asked=False)
        return chunk

    def __getattr__(self, name):
        return getattr(self._stream, name)


class _Sent:
    """A writable stream of the connector."""

    def __init__(self, stream, told):
        self._stream, self._told = stream, told

    def write(self, data):
        try:
            done = self._stream.write(data)
        except BaseException as error:
            self._told.failed(error)
            raise
        self._told.moved += len(data)
        return done

    def close(self):
        try:
            self._stream.close()
        except BaseException as error:
            self._told.failed(error)
            raise
        self._told.requested = self._told.moved
        self._told.end()

    def __getattr__(self, name):
        return getattr(self._stream, name)
