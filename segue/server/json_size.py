"""Bounds the number of values in a JSON text, and how deep they are nested, before it is decoded.

Decoding holds the interpreter lock, and goes as deep as this version of Python lets it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from segue.bounds import MAX_JSON_CONTAINERS, MAX_JSON_DEPTH, MAX_JSON_VALUES
from segue.errors import BodyTooLarge, MalformedBody

_PIECE_BYTES = 1 << 17  # counted at a time: a millisecond or two
_QUOTE, _BACKSLASH, _COMMA = (ord(each) for each in '"\\,')
_COSTLY = tuple(ord(each) for each in "[{:")  # they begin a list or an object, or end a key
_STEPS = np.zeros(256, np.int32)  # by the byte: how much deeper what follows it is
_STEPS[[ord(each) for each in "[{"]] = 1
_STEPS[[ord(each) for each in "]}"]] = -1


def check_size(body: bytes) -> None:
    """Raises BodyTooLarge. Strings are left out only if the count with strings exceeds the bound."""
    data = np.frombuffer(body, np.uint8)
    if not _is_within(*_count(data)):
        num_values = num_containers = 0
        for outside in _outside_strings(data):
            values, containers = _count(outside)
            num_values, num_containers = num_values + values, num_containers + containers
            if not _is_within(num_values, num_containers):
                raise BodyTooLarge(
                    f"The body must hold at most {MAX_JSON_VALUES} JSON values, "
                    f"{MAX_JSON_CONTAINERS} of them lists, objects and their keys."
                )


def check_depth(body: bytes) -> None:
    """Raises MalformedBody. Few bodies have so many brackets that more than their number is looked at."""
    if body.count(b"[") + body.count(b"{") > MAX_JSON_DEPTH:
        depth = 0
        for outside in _outside_strings(np.frombuffer(body, np.uint8)):
            depths = depth + np.cumsum(_STEPS[outside])
            if depths.max(initial=0) > MAX_JSON_DEPTH:
                raise MalformedBody(f"The body is nested more than {MAX_JSON_DEPTH} deep.")
            depth = int(depths[-1]) if len(depths) else depth


def _is_within(num_values: int, num_containers: int) -> bool:
    return num_values <= MAX_JSON_VALUES and num_containers <= MAX_JSON_CONTAINERS


def _count(data: NDArray[np.uint8]) -> tuple[int, int]:
    """Upper bounds on the number of values and of costly ones: one per bracket and comma."""
    num_containers = sum(int(np.count_nonzero(data == sign)) for sign in _COSTLY)
    return num_containers + int(np.count_nonzero(data == _COMMA)), num_containers


def _outside_strings(data: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """The bytes that are no part of a string, piece by piece."""
    is_inside = is_escaped = False
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        outside, is_inside, is_escaped = _without_strings(piece, is_inside, is_escaped)
        yield outside


def _without_strings(
    data: NDArray[np.uint8], is_inside: bool, is_escaped: bool
) -> tuple[NDArray[np.uint8], bool, bool]:
    """The bytes outside strings, and the two states at the start of the next piece: whether that is inside a string,
    and whether its first byte is escaped.

    A backslash outside a string is an error that ends decoding, so the count after it does not matter.
    """
    is_quote = data == _QUOTE
    slashes = np.flatnonzero(data == _BACKSLASH)
    if is_escaped:
        is_quote[0] = False
        slashes = slashes[slashes > 0]
    is_escaped = False
    if len(slashes):
        # In a run of backslashes every second one is escaped; an odd run escapes what follows it.
        is_first = np.concatenate(([True], np.diff(slashes) > 1))
        starts = slashes[is_first]
        ends = slashes[np.concatenate((is_first[1:], [True]))]
        escaped = ends[(ends - starts) % 2 == 0] + 1
        is_escaped = len(data) in escaped[-1:]
        is_quote[escaped[escaped < len(data)]] = False
    is_in_string = np.logical_xor.accumulate(is_quote) ^ is_inside
    return data[~is_in_string], bool(is_in_string[-1]), is_escaped
