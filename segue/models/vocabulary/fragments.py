"""Finds special tokens in a text."""

from collections.abc import Iterable
from typing import NamedTuple

_WHITE_SPACE = " \t\n\v\f\r"


class Special(NamedTuple):
    token: int
    text: str
    takes_left: bool  # the white space before it
    takes_right: bool


def ordered(specials: Iterable[Special]) -> list[Special]:
    """As they are searched for: the longest first."""
    return sorted(specials, key=lambda each: -len(each.text.encode(errors="surrogateescape")))


def fragments(text: str, specials: Iterable[Special]) -> list[int | str]:
    """The text with its special tokens as numbers. Each of `specials` in turn is searched for in what is still text."""
    found: list[int | str] = [text] if text else []
    for special in specials:
        if special.text in text:
            found = [
                each
                for fragment in found
                for each in (
                    _around(special, fragment) if isinstance(fragment, str) else (fragment,)
                )
            ]
    return found


def _around(special: Special, text: str) -> Iterable[int | str]:
    pieces = text.split(special.text)
    for index, piece in enumerate(pieces):
        if index:
            yield special.token
            if special.takes_right:
                piece = piece.lstrip(_WHITE_SPACE)
        if special.takes_left and index < len(pieces) - 1:
            piece = piece.rstrip(_WHITE_SPACE)
        if piece:
            yield piece
