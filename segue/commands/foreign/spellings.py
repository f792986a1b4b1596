"""Flags of other servers that are taken here: what one of ours is called there, its value in our words."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

# Flag there → ours, and its value from the one that is given there.
SPELLINGS: dict[str, tuple[str, Callable[[str], str]]] = {
    "--uds": ("--host", "unix:{}".format),  # vLLM's
}


def in_our_words(args: Iterable[str]) -> Iterator[str]:
    """The arguments, with such flags and their values as ours."""
    rest = iter(args)
    for each in rest:
        flag, has_value, value = each.partition("=")
        if each == "--":
            yield each
            yield from rest
        elif flag not in SPELLINGS:
            yield each
        else:
            ours, translated = SPELLINGS[flag]
            given = [value] if has_value else [*islice(rest, 1)]
            yield from (f"{ours}={translated(text)}" for text in given)
            yield from () if given else (each,)  # refused, as it has no value
