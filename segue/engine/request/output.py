"""From the tokens of one choice to its visible text.

A score is released with its text: once text from the token's position on is shown. A token that lies wholly inside a
stop string has no score, or it comes at the end (`scores_stops`). So the answer does not depend on how it is streamed.
"""

from msgspec import Struct
from msgspec.structs import replace

from segue.detokenizer import Detokenizer
from segue.engine.request.stops import IndentLimit, StopMatcher
from segue.types import TokenScore


class Shown(Struct, frozen=True):
    text: str
    tokens: tuple[int, ...]
    scores: tuple[TokenScore, ...]


class Output:
    def __init__(
        self,
        stops: tuple[str, ...],
        min_tokens: int = 0,
        min_indent: int = 0,
        include_stop: bool = False,
        scores_stops: bool = False,
    ) -> None:
        self._include_stop = include_stop
        self._scores_stops = scores_stops
        self._num_exempt = min_tokens  # the next so many tokens cannot complete a stop string
        self._detokenizer = Detokenizer()
        self._indent = IndentLimit(min_indent)
        self._stops = StopMatcher(stops)
        self._is_filtered = bool(stops or min_indent)
        self._num_decoded = 0  # characters out of the detokenizer, held ones included
        self._num_shown = 0
        self._text = ""
        self._tokens: list[int] = []
        self._scores: list[tuple[int, TokenScore]] = []  # with the character each token starts at
        self.stopped_by: str | None = None
        self.is_dedented = False
        self.num_known = 0  # the next so many bytes are already in the prompt

    def push(self, token: int, piece: bytes, score: TokenScore | None) -> None:
        """One more token; `piece` is empty for those that have no text. Sets `stopped_by` on a match."""
        self._tokens.append(token)
        if score is not None and not piece and score.piece:
            score = replace(score, is_shown=False)
        if self.num_known:
            known, self.num_known = self.num_known, max(0, self.num_known - len(piece))
            piece = piece[known:]
        text = self._detokenizer.push(piece)
        if score is not None:
            self._scores.append((self._num_decoded + self._detokenizer.num_before, score))
        self._show(text)
        self._num_exempt -= 1

    def take(self) -> Shown | None:
        """What became visible since the last call, or None if nothing did."""
        ready = 0
        if self._scores:
            while ready < len(self._scores) and self._scores[ready][0] < self._num_shown:
                ready += 1
        return self._release(ready) if self._text or ready else None

    def flush(self, keeps_half: bool = True) -> Shown | None:
        """The choice is over: everything that is still held back, or None if nothing is.

        Half a character at the end becomes a replacement character, or is left out.
        """
        if not self.is_cut and keeps_half:
            self._show(self._detokenizer.flush())
        if self.stopped_by is None:
            held = self._stops.flush()
            self._text += held
            self._num_shown += len(held)
        if self.is_cut and not self._scores_stops:
            self._scores = [entry for entry in self._scores if entry[0] < self._num_shown]
        is_left = self._text or self._tokens or self._scores
        return self._release(len(self._scores)) if is_left else None

    @property
    def is_cut(self) -> bool:
        return self.stopped_by is not None or self.is_dedented

    def _show(self, text: str) -> None:
        if self._is_filtered:
            text, self.is_dedented = self._indent.push(text)
        self._num_decoded += len(text)
        if self._is_filtered and text:
            text, self.stopped_by = self._stops.push(text, is_exempt=self._num_exempt > 0)
            if self.stopped_by is not None and self._include_stop:
                text += self.stopped_by
        self._text += text
        self._num_shown += len(text)

    def _release(self, num_scores: int) -> Shown:
        scores: tuple[TokenScore, ...] = ()
        if num_scores:
            scores = tuple(score for _, score in self._scores[:num_scores])
            del self._scores[:num_scores]
        shown = Shown(self._text, tuple(self._tokens), scores)
        self._text = ""
        self._tokens.clear()
        return shown
