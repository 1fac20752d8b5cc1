"""Records a request to an object store as an event, from sending it to the end of its response."""

import errno as numbers
import time

from dliotrace import io_done, now

# Clients' exceptions for requests that failed, by the names of their classes.
_FAILURES = {
    "ConnectTimeoutError": numbers.ETIMEDOUT, "ReadTimeoutError": numbers.ETIMEDOUT, "TimeoutError": numbers.ETIMEDOUT,
    "NewConnectionError": numbers.ECONNREFUSED, "EndpointConnectionError": numbers.ECONNREFUSED,
    "ConnectionClosedError": numbers.ECONNRESET, "ResponseStreamingError": numbers.ECONNRESET,
    "IncompleteReadError": numbers.ECONNRESET, "ProtocolError": numbers.ECONNRESET, "ClientError": numbers.ECONNRESET,
}
# Requests with these exceptions never reached the store.
_UNSENT = {"ConnectTimeoutError", "EndpointConnectionError", "NewConnectionError", "ProxyConnectionError", "SSLError"}


def number_of(error):
    """Returns the error number of an exception."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    names = (kind.__name__ for kind in type(error).__mro__)
    return next((_FAILURES[name] for name in names if name in _FAILURES), numbers.EIO)


def number_of_status(status):
    """Returns the error number for an HTTP status; 0 for a status that is not an error."""
    known = {401: numbers.EACCES, 403: numbers.EACCES, 404: numbers.ENOENT, 408: numbers.ETIMEDOUT,
             429: numbers.EBUSY, 503: numbers.EBUSY}
    return 0 if status < 400 else known.get(status, numbers.EINVAL if status < 500 else numbers.EIO)


class Told:
    """One attempt. It ends when its end is reported, at the latest when the last reference to it is dropped."""

    __slots__ = ("operation", "url", "pos", "requested", "moved", "facts", "start", "begun")

    def __init__(self, operation, url, pos=None, requested=0, **facts):
        self.operation, self.url, self.pos, self.requested, self.moved = operation, url, pos, requested, 0
        self.facts = {name: value for name, value in facts.items() if value is not None}
        self.begun = time.perf_counter_ns()
        self.start = now()

    def answered(self, status=None, length=None):
        """Records the start of the response; a length is that of the expected body."""
        self.facts["first_byte_ns"] = time.perf_counter_ns() - self.begun
        if status is not None:
            self.facts["status"] = status
        if length is not None:
            self.requested = length

    def took(self, count, asked=True):
        """Counts received bytes of the body; none after a request for some is its end."""
        self.moved += count
        if self.moved >= self.requested > 0:
            self.end()
        elif asked and not count:
            self.end(numbers.ECONNRESET if self.requested else 0)

    def failed(self, error):
        if type(error).__name__ in _UNSENT:
            self.operation, self.pos = "connect", None
        self.end(number_of(error))

    def end(self, number=0):
        start, self.start = self.start, 0
        if start:
            if number and self.moved:
                self.facts["broken"], number = number, 0  # the bytes before the failure did arrive
            io_done(self.operation, self.url, start, pos=self.pos, requested=self.requested, moved=self.moved,
                    errno=number, **self.facts)

    def __del__(self):
        try:
            self.end()
        except Exception:  # the interpreter is shutting down
            pass


_watched = {}


def watch(raw, told):
    """Makes a response report the bytes read from it. It remains the same object, with a subclass of the same name."""
    kind = type(raw)
    try:
        if kind not in _watched:
            _watched[kind] = type(kind.__name__, (kind,), {
                "__module__": kind.__module__, "__qualname__": kind.__qualname__,
                **{name: _reading(getattr(kind, name), name) for name in ("read", "read1") if hasattr(kind, name)},
                "close": _closing(kind.close),
            })
        raw._dliotrace_told = told
        raw.__class__ = _watched[kind]
    except (AttributeError, TypeError):  # a body that cannot be wrapped: recorded when its head arrives
        told.end()


def _reading(original, name):
    def read(self, *args, **kwargs):
        told = vars(self).get("_dliotrace_told")
        try:
            data = original(self, *args, **kwargs)
        except BaseException as error:
            if told is not None:
                told.failed(error)
            raise
        if told is not None:
            told.took(len(data or b""), asked=bool(not args or args[0]))
        return data

    read.__name__ = name
    return read


def _closing(original):
    def close(self, *args, **kwargs):
        told = vars(self).get("_dliotrace_told")
        try:
            return original(self, *args, **kwargs)
        finally:
            if told is not None:
                told.end()

    return close
