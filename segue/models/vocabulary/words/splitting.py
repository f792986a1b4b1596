"""Splits a text into the words within which a byte-level vocabulary merges."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Literal, NamedTuple

from segue.models.vocabulary.words import categories

View = Literal["classes", "han", "text"]
_VIEWS: dict[View, Callable[[str], str]] = {
    "classes": categories.in_classes,
    "han": categories.with_han,
    "text": categories.in_plain_space,
}


_WHITE_SPACE = " \t\n\v\f\r"


class Rule(NamedTuple):
    """What it matches is a word, and so is what lies between two matches."""

    pattern: str = ""  # for `re`, with `\\p{…}` of categories.CLASSES in brackets
    view: View = "classes"
    # Where it cuts instead. With "start" and "end" its matches are runs of digits, in groups of three counted from the
    # end of the run. "start": before each whole group, so that what follows the run stays with it. "end": after each
    # group, so that what precedes the run stays with it. "trailing space": before white space at the end.
    part_at: Literal["", "start", "end", "trailing space"] = ""


def split(text: str, rules: Sequence[Rule]) -> list[str]:
    """Each rule splits what the one before left."""
    ends, views = [len(text)], dict[View, str]()
    for rule in rules:
        view = views.get(rule.view)
        if view is None:
            view = views[rule.view] = _VIEWS[rule.view](text)
        ends = _CUTS[rule.part_at](view, rule, ends)
    start, words = 0, []
    for end in ends:
        words.append(text[start:end])
        start = end
    return words


def _by_matches(view: str, rule: Rule, ends: Iterable[int]) -> list[int]:
    find, cuts, start = _compiled(rule.pattern).finditer, list[int](), 0
    for end in ends:
        for match in find(view, start, end):
            first, last = match.span()
            if first > start:
                cuts.append(first)
            cuts.append(last)
            start = last
        if start < end:
            cuts.append(end)
            start = end
    return cuts


def _by_threes(view: str, rule: Rule, ends: Iterable[int]) -> list[int]:
    find, cuts, start = _compiled(rule.pattern).finditer, list[int](), 0
    for end in ends:
        for match in find(view, start, end):
            first, last = match.span()
            points = range(first + (last - first) % 3, last + 1, 3)
            low, high = (start, last) if rule.part_at == "start" else (first, last + 1)
            cuts += [point for point in points if low < point < high]
        if not cuts or cuts[-1] < end:
            cuts.append(end)
        start = end
    return cuts


def _by_trailing_space(view: str, rule: Rule, ends: Iterable[int]) -> list[int]:
    """Not by an expression, which would try at every space of a run that something follows."""
    cuts, start = list[int](), 0
    for end in ends:
        last = start + len(view[start:end].rstrip(_WHITE_SPACE))
        cuts += (last, end) if start < last < end else (end,)
        start = end
    return cuts


_CUTS = {
    "": _by_matches,
    "start": _by_threes,
    "end": _by_threes,
    "trailing space": _by_trailing_space,
}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    for name, characters in categories.CLASSES.items():
        pattern = pattern.replace(name, characters)
    return re.compile(pattern, re.ASCII)
