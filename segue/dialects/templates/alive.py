"""How much of what a rendering makes is alive: what was freed does not count.

A text says to nobody that it is freed. So what is large is held here until it is looked whether anybody else holds it
too, which is whenever twice as much has gathered as the last time was found alive.
"""

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jinja2.exceptions import SecurityError

MAX_BYTES = 2**30  # of what one rendering made and keeps
_LEAST_BYTES = 2**24  # as much may gather in any case
_SMALL = 4096  # bytes: what has fewer counts as if it were never freed
_MAX_LEFT = 2**28  # that renderings may leave to the next collection of what leads back to itself
_ENTRIES: Any = (list, tuple, set)


class _Thing(NamedTuple):
    size: int  # when it was made
    weight: int | None  # as growth.py weighs it, if it is known
    value: Any


_Held = dict[int, _Thing]  # by their ids


class _Here(threading.local):
    """Of the rendering on this thread."""

    def __init__(self) -> None:
        self.held: _Held = {}
        self.num_bytes = 0
        self.limit = 0


_here = _Here()


class _Left:
    """By all threads."""

    num_bytes = 0


@contextmanager
def counting() -> Iterator[None]:
    """While a template is rendered. Afterwards nothing is held; of what it made, only what is given back may live on.

    A namespace may hold itself, and the interpreter looks for such when many objects were made, however large they are.
    """
    _here.num_bytes, _here.limit = 0, min(_LEAST_BYTES, MAX_BYTES)
    try:
        yield
    finally:
        _free()
        _here.held.clear()
        _Left.num_bytes += _here.num_bytes
        if _Left.num_bytes > _MAX_LEFT:
            _Left.num_bytes = 0
            gc.collect()


def made(value: Any, weight: int | None = None) -> Any:
    """The value, which was not there before. Raises SecurityError if too much is alive with it."""
    size = sys.getsizeof(value)
    if size < _SMALL and weight is None:
        _here.num_bytes += size
    elif id(value) not in _here.held:  # else it was given back as it is
        _here.held[id(value)] = _Thing(size, weight, value)
        _here.num_bytes += size
    if _here.num_bytes > _here.limit:
        _free()
        if _here.num_bytes > MAX_BYTES:
            raise SecurityError("it makes too much")
        _here.limit = min(max(2 * _here.num_bytes, _LEAST_BYTES), MAX_BYTES)
    return value


def made_with_entries(value: Any) -> Any:
    """The same of what Python made by itself, and of what is in it: entries that nobody else holds are new too."""
    waiting = [value]
    while waiting:
        each = made(waiting.pop())
        if isinstance(each, _ENTRIES):
            entries = [*each]
            waiting += [
                entries[index]
                for index in range(len(entries))
                if _num_holders_of_entry(entries, index) == _ALONE_THERE
            ]
    return value


def weight_of(value: Any) -> int | None:
    """What it was made with."""
    thing = _here.held.get(id(value))
    return thing and thing.weight


def _free() -> None:
    """Let go of what nobody else holds. What holds others was made after them, and goes first."""
    for key in reversed([*_here.held]):
        if _num_holders(_here.held, key) == _ALONE:
            _here.num_bytes -= _here.held.pop(key).size


def _num_holders(held: _Held, key: int) -> int:
    return sys.getrefcount(held[key].value)


def _num_holders_of_entry(entries: list[Any], index: int) -> int:
    return sys.getrefcount(entries[index])


def _alone_there() -> int:
    """Of what is in one list, and in another of the same entries."""
    one = [object()]
    return _num_holders_of_entry([*one], 0)


_ALONE = _num_holders({0: _Thing(0, None, object())}, 0)
_ALONE_THERE = _alone_there()
