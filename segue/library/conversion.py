"""Values of programs as a request has them: tuples, arrays and numbers of NumPy, paths, enumerations."""

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from segue.errors import InvalidField

_PLAIN = frozenset({str, int, float, bool, type(None)})


def plain(name: str, value: object) -> Any:
    """The value as JSON would have brought it. Raises InvalidField, which names the option, where there is no such."""
    try:
        return _plain(value)
    except TypeError as error:
        raise InvalidField(f"{name} {error}", name) from None
    except RecursionError:
        raise InvalidField(f"{name} is nested too deeply, or holds itself", name) from None


def _plain(value: object) -> Any:
    if type(value) in _PLAIN:  # of the ids of a long prompt, every one
        return value
    match value:
        case str():
            return str.__str__(value)
        case int() | float():
            return int(value) if isinstance(value, int) else float(value)
        case bytes() | bytearray() | memoryview():
            raise TypeError("must be a text or token ids, not bytes: decode them")
        case os.PathLike():
            return os.fspath(value)
        case Mapping():  # the keys of `logit_bias` are token ids
            return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # an array, or one number of it
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(item) for item in value]
    if hasattr(value, "__index__"):
        return operator.index(value)
    raise TypeError(f"cannot be a value of type {type(value).__name__}")
