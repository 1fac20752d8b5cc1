"""Records requests of botocore and aiobotocore, which boto3, s3transfer, smart_open, s3fs and fsspec use: one per attempt."""

import functools
from urllib.parse import parse_qs, unquote, urlsplit

from dliotrace._patch import replace
from dliotrace._requests import Told, number_of_status, watch

_OPERATIONS = {
    "GetObject": "get", "PutObject": "put", "UploadPart": "part", "HeadObject": "head", "HeadBucket": "head",
    "ListObjects": "list", "ListObjectsV2": "list", "ListBuckets": "list", "ListParts": "list",
    "ListMultipartUploads": "list", "ListObjectVersions": "list", "DeleteObject": "delete", "DeleteObjects": "delete",
    "CopyObject": "copy", "UploadPartCopy": "copy", "CreateMultipartUpload": "begin",
    "CompleteMultipartUpload": "complete", "AbortMultipartUpload": "abort",
}


def endpoint(module):
    """botocore.endpoint"""
    replace(module.Endpoint, "_do_get_response", _attempt)


def aio_endpoint(module):
    """aiobotocore.endpoint"""
    replace(module.AioEndpoint, "_do_get_response", _aio_attempt)


def aio_response(module):
    """aiobotocore.response: awaitable bodies"""
    for name in ("AioStreamingBody", "AioHttpxStreamingBody", "StreamingBody", "HttpxStreamingBody"):
        body = getattr(module, name, None)
        if body is not None:
            for method in ("read", "readinto"):
                if method in vars(body):
                    replace(body, method, _aio_read)


def _attempt(original):
    @functools.wraps(original)
    def _do_get_response(self, request, operation_model, *args, **kwargs):
        told = _begun(request, operation_model, args, kwargs)
        if told is None:
            return original(self, request, operation_model, *args, **kwargs)
        try:
            outcome = original(self, request, operation_model, *args, **kwargs)
        except BaseException as error:
            told.failed(error)
            raise
        body = _judged(told, outcome)
        if body is not None:
            watch(body._raw_stream, told)
        return outcome

    return _do_get_response


def _aio_attempt(original):
    @functools.wraps(original)
    async def _do_get_response(self, request, operation_model, *args, **kwargs):
        told = _begun(request, operation_model, args, kwargs)
        if told is None:
            return await original(self, request, operation_model, *args, **kwargs)
        try:
            outcome = await original(self, request, operation_model, *args, **kwargs)
        except BaseException as error:
            told.failed(error)
            raise
        body = _judged(told, outcome)
        if body is not None:
            try:
                body._dliotrace_told = told
            except AttributeError:
                told.end()
        return outcome

    return _do_get_response


def _aio_read(original):
    @functools.wraps(original)
    async def read(self, *args, **kwargs):
        told = getattr(self, "_dliotrace_told", None)
        if told is None:
            return await original(self, *args, **kwargs)
        try:
            data = await original(self, *args, **kwargs)
        except BaseException as error:
            told.failed(error)
            raise
        told.took(data if isinstance(data, int) else len(data), asked=not args or args[0] != 0)
        return data

    return read


def _begun(request, operation_model, args, kwargs):
    """Returns None for a request to another service, or with too little information."""
    try:
        if operation_model.service_model.service_name != "s3":
            return None
        context = args[0] if args else kwargs.get("context") or {}
        operation = _OPERATIONS.get(operation_model.name, "other")
        parts = urlsplit(request.url)
        pos, requested = _range(request.headers, operation)
        return Told(operation, _url(context, parts), pos, requested, server=parts.netloc,
                    attempt=(context.get("retries") or {}).get("attempt"), part=_part(parts.query))
    except Exception:  # requests of another version: not recorded
        return None


def _url(context, parts):
    known = context.get("input_params") or {}
    path, bucket = unquote(parts.path).lstrip("/"), known.get("Bucket")
    if bucket is None:
        bucket, _, path = path.partition("/")
    elif path == bucket or path.startswith(bucket + "/"):
        path = path[len(bucket) + 1:]
    return f"s3://{bucket}/{path}" if path else f"s3://{bucket}"


def _header(headers, name):
    value = headers.get(name)
    return value.decode() if isinstance(value, bytes) else value


def _range(headers, operation):
    if operation == "get":
        first, _, last = (_header(headers, "Range") or "bytes=0-").removeprefix("bytes=").partition("-")
        if not first:
            return None, int(last)  # this many bytes from the end
        return int(first), int(last) - int(first) + 1 if last else 0
    if operation in ("put", "part"):
        size = _header(headers, "X-Amz-Decoded-Content-Length") or _header(headers, "Content-Length") or 0
        return (0 if operation == "put" else None), int(size)
    return None, 0


def _part(query):
    part = parse_qs(query).get("partNumber")
    return int(part[0]) if part else None


def _judged(told, outcome):
    """Records a finished response, or returns the body that will follow."""
    answer, error = outcome
    if answer is None:
        told.failed(error)
        return None
    response, parsed = answer
    status, length = response.status_code, response.headers.get("content-length")
    body = parsed.get("Body") if isinstance(parsed, dict) and told.operation == "get" and status < 300 else None
    told.answered(status, int(length or 0) if body is not None else None)
    if body is not None and told.requested:
        return body
    if status < 300 and told.operation in ("put", "part"):
        told.moved = told.requested
    told.end(number_of_status(status))
    return None
