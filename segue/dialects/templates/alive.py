"""How much of what a rendering makes is alive: what was freed does not count.

A text says to nobody that it is freed. So what is large is held here until it is looked whether anybody else holds it
too, which is whenever twice as much has gathered as the last time was found alive.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jinja2.exceptions import SecurityError

MAX_BYTES = 2**30  # of what one rendering made and keeps
_LEAST_BYTES = 2**24  # as much may gather in any case
_SMALL = 4096  # bytes: what has fewer counts as if it were never freed

_Held = dict[int, tuple[int, Any]]  # by its id, the size of a thing when it was made, and the thing


class _Here(threading.local):
    """Of the rendering on this thread."""

    def __init__(self) -> None:
        self.held: _Held = {}
        self.num_bytes = 0
        self.limit = 0


_here = _Here()


@contextmanager
def counting() -> Iterator[None]:
    """While a template is rendered. Afterwards nothing is held."""
    _here.num_bytes, _here.limit = 0, min(_LEAST_BYTES, MAX_BYTES)
    try:
        yield
    finally:
        _here.held.clear()


def made(value: Any) -> Any:
    """The value, which was not there before. Raises SecurityError if too much is alive with it."""
    size = sys.getsizeof(value)
    if size < _SMALL:
        _here.num_bytes += size
    elif id(value) not in _here.held:  # else it was given back as it is
        _here.held[id(value)] = size, value
        _here.num_bytes += size
    if _here.num_bytes > _here.limit:
        _free()
        if _here.num_bytes > MAX_BYTES:
            raise SecurityError("it makes too much")
        _here.limit = min(max(2 * _here.num_bytes, _LEAST_BYTES), MAX_BYTES)
    return value


def _free() -> None:
    """Let go of what nobody else holds. What holds others was made after them, and goes first."""
    for key in reversed([*_here.held]):
        if _num_holders(_here.held, key) == _ALONE:
            _here.num_bytes -= _here.held.pop(key)[0]


def _num_holders(held: _Held, key: int) -> int:
    return sys.getrefcount(held[key][1])


_ALONE = _num_holders({0: (0, object())}, 0)
