"""How many tokens a chunk of a stream holds: events of tokens are joined before anything is made of them."""

from collections.abc import Iterable

from segue.types import LAST, Delta, Event, Finished


class Bundles:
    """Each choice's first Delta goes on at once, further ones joined, `interval` tokens in one. At its end nothing is
    held back. Everything else goes on as it came.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._held: dict[int, list[Delta]] = {}  # by choice, once its first has gone on

    def push(self, events: Iterable[Event]) -> list[Event]:
        going_on: list[Event] = []
        for event in events:
            if isinstance(event, Delta):
                going_on += self._take(event)
                continue
            if isinstance(event, Finished):
                going_on += self._rest(event.choice)
            elif isinstance(event, LAST):
                for choice in self._held:
                    going_on += self._rest(choice)
            going_on.append(event)
        return going_on

    def _take(self, delta: Delta) -> list[Delta]:
        held = self._held.get(delta.choice)
        if held is None:
            self._held[delta.choice] = []
            return [delta]
        held.append(delta)
        is_full = sum(len(each.tokens) for each in held) >= self._interval
        return self._rest(delta.choice) if is_full else []

    def _rest(self, choice: int) -> list[Delta]:
        """What is held of the choice, as one."""
        held = self._held.get(choice, [])
        if not held:
            return []
        self._held[choice] = []
        scores = [each.scores for each in held if each.scores is not None]
        joined = Delta(
            choice,
            "".join([each.text for each in held]),
            tuple([token for each in held for token in each.tokens]),
            tuple([score for some in scores for score in some]) if scores else None,
            held[-1].decode_s,
        )
        return [joined]
