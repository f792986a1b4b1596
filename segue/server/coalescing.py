"""How many tokens a chunk of a stream holds: events of tokens are joined before anything is made of them."""

from collections.abc import Iterable

from segue.bounds import LARGE_ANSWER_ITEMS
from segue.types import LAST, Delta, Event, Finished


class _Held:
    """What is held of a choice."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []
        self.num_tokens = 0
        self.num_scores = 0


class Coalescer:
    """Each choice's first Delta goes on at once, further ones joined, `interval` tokens in one. At its end nothing is
    held back. Everything else goes on as it came. Many scores are not held, whatever the interval: a client could
    have the whole of a long answer's kept.
    """

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._held: dict[int, _Held] = {}  # by choice, once its first has gone on

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
            self._held[delta.choice] = _Held()
            return [delta]
        held.deltas.append(delta)
        held.num_tokens += len(delta.tokens)
        held.num_scores += sum([1 + len(score.top) for score in delta.scores or ()])
        is_full = held.num_tokens >= self._interval or held.num_scores >= LARGE_ANSWER_ITEMS
        return self._rest(delta.choice) if is_full else []

    def _rest(self, choice: int) -> list[Delta]:
        """What is held of the choice, as one."""
        held = self._held[choice].deltas if choice in self._held else []
        if not held:
            return []
        self._held[choice] = _Held()
        scores = [each.scores for each in held if each.scores is not None]
        joined = Delta(
            choice,
            "".join([each.text for each in held]),
            tuple([token for each in held for token in each.tokens]),
            tuple([score for some in scores for score in some]) if scores else None,
            held[-1].decode_s,
        )
        return [joined]
