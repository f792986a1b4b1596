"""Stop strings, matched on text, and the end of an indented block.

A match is the first moment at which some stop string is a suffix of all text so far; if several are, the
longest wins. Text is held back only while it could still become a stop string: what is held is the longest
suffix of the text that is a proper prefix of a stop. So no part of a stop is ever shown, no other text is held,
and the result does not depend on how the text was split.
"""

from collections.abc import Sequence


class StopMatcher:
    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max((len(stop) for stop in stops), default=0)
        self._held = ""
        self._num_exempt = 0  # held characters in which no stop may end

    def push(self, text: str, is_exempt: bool = False) -> tuple[str, str | None]:
        """The text that is now safe to show, and the stop string that ended it, if one did.

        No stop ends in a text that `is_exempt`, but one that ends later may begin there.
        """
        if not self._stops:
            return text, None
        num_searched = len(self._held)
        self._held += text
        if is_exempt:
            self._num_exempt = len(self._held)
        found = self._first_match(max(num_searched, self._num_exempt))
        if found is not None:
            start, stop = found
            shown, self._held = self._held[:start], ""
            return shown, stop
        keep = self._num_held()
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        self._num_exempt = max(0, self._num_exempt - cut)
        return shown, None

    def flush(self) -> str:
        """The output ended without a stop: return the text that was held back."""
        shown, self._held = self._held, ""
        return shown

    def _first_match(self, after: int) -> tuple[int, str] | None:
        """Of those that end after so many characters."""
        matches = [
            (start + len(stop), start, stop)
            for stop in self._stops
            if (start := self._held.find(stop, max(0, after - len(stop) + 1))) >= 0
        ]
        if not matches:
            return None
        _, start, stop = min(matches)  # earliest end; among those the earliest start
        return start, stop

    def _num_held(self) -> int:
        for size in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0


class IndentLimit:
    """Ends a text at a later line that is indented by fewer than `least` blanks, including an empty line.

    The line break and the blanks after it are still shown; the caller decides what to do with them.
    """

    def __init__(self, least: int) -> None:
        self._least = least
        self._num_blanks: int | None = None  # at the start of the line; None: past them

    def push(self, text: str) -> tuple[str, bool]:
        """The part of `text` to show, and whether the output ends there."""
        if not self._least:
            return text, False
        for at, char in enumerate(text):
            if self._num_blanks is not None:
                if char in " \t":
                    self._num_blanks += 1
                    continue
                if self._num_blanks < self._least:
                    return text[:at], True
            self._num_blanks = 0 if char == "\n" else None
        return text, False
