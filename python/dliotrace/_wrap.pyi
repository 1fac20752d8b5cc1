from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from dliotrace._engine import Span

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Item = TypeVar("_Item")

@overload
def traced(function: _Function, /, *, name: str | None = None, cat: str = "app", **meta: object) -> _Function: ...
@overload
def traced(
    function: str | None = None, /, *, name: str | None = None, cat: str = "app", **meta: object
) -> Callable[[_Function], _Function]: ...
def wrap(function: _Function, span: Span) -> _Function: ...
@overload
def traced_iter(iterable: Iterable[_Item], span: str | Span = "fetch", /, cat: str = "data", **meta: object) -> Iterator[_Item]: ...
@overload
def traced_iter(
    iterable: AsyncIterable[_Item], span: str | Span = "fetch", /, cat: str = "data", **meta: object
) -> AsyncIterator[_Item]: ...
