"""Free text in which some texts must not appear, or that ends with the first of them, as an automaton."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from segue.engine.constraints.grammar import (
    Free,
    Range,
    Step,
    char_set,
    complement,
)

MAX_STOP_CHARS = 2000  # of all texts to look out for in one free text


def steps(free: Free) -> list[list[Step]]:
    """What may be read in each state; the text begins in the first. What must not appear is never read."""
    prefixes, fails = _trie(free.stops)
    alphabet = sorted({c for stop in free.stops for c in stop})
    number = {prefix: at for at, prefix in enumerate(prefixes)}
    others = complement(char_set([(ord(c), ord(c)) for c in alphabet]))
    found: list[list[Step]] = []
    for prefix in prefixes:
        ranges: dict[str, list[Range]] = defaultdict(list)
        ranges[""].extend(others)
        for c in alphabet:
            ranges[_after(prefix, c, number, fails)].append((ord(c), ord(c)))
        found.append(
            [
                Step(char_set(chars), number[after], is_end)
                for after, chars in ranges.items()
                if chars and (is_end := _may_end(free, after)) is not None
            ]
        )
    return found


def _trie(stops: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """All beginnings of the texts, and for each the longest one that it ends with."""
    prefixes = sorted({stop[:at] for stop in stops for at in range(len(stop) + 1)} | {""}, key=len)
    known = dict.fromkeys(prefixes, 0)
    fails: dict[str, str] = {"": ""}
    for prefix in prefixes[1:]:
        shorter = prefix[:-1]
        fails[prefix] = _after(fails[shorter], prefix[-1], known, fails) if shorter else ""
    return prefixes, fails


def _after(prefix: str, c: str, known: dict[str, int], fails: dict[str, str]) -> str:
    while prefix and prefix + c not in known:
        prefix = fails[prefix]
    return prefix + c if prefix + c in known else ""


def _may_end(free: Free, read: str) -> bool | None:
    """Whether the text may end with what was read of the texts to look out for; None: it must not go there at all."""
    met = [stop for stop in free.stops if read.endswith(stop)]
    if not met:
        return free.until is None
    return True if max(met, key=len) == free.until else None


def can_come_first(stop: str, stops: Collection[str], wanted: Collection[str]) -> bool:
    """Whether a text can end with this stop before any other is met; what is not wanted counts even there."""
    return not any(other in stop[:-1] for other in stops) and not any(
        stop.endswith(other) for other in stops if other not in wanted
    )


def is_entangled(texts: Sequence[str]) -> bool:
    """Whether one of the texts can begin within another, or itself."""
    return any(
        one.endswith(other[:num])
        for one in texts
        for other in texts
        for num in range(1, len(other))
    ) or any(one in other for one in texts for other in texts if one != other)
