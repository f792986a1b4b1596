"""Which middle fits best between a prefix and a suffix, among continuations of the prefix cut at every place.

The best is the one with the highest log p(middle | prefix) + log p(suffix | prefix, middle). All cuts are compared
after the first token of the suffix, whose score is a by-product of drawing. Those far behind the best are dropped, the
others scored a few tokens further, and so on: the first tokens of the suffix usually decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from segue.engine.seam import Vocab
from segue.engine.tokens import text_tokens
from segue.types import Prompt

SCORED_SUFFIX = 32  # tokens of the suffix that count
# Per round: suffix tokens scored, cuts kept, largest distance from the best. On 14 of the gaps of bench/infill.py
# no dropped cut would have won.
_STAGES = ((4, 16, 8.0), (12, 8, 6.0), (SCORED_SUFFIX, 4, 3.0))
_MAX_SWALLOWED = 16  # characters of the suffix that the last token of a middle may hold already
Tokens = tuple[int, ...]
_SPACES = (" ", "\n")


@dataclass(frozen=True)
class Suffix:
    """The suffix as tokens, for each form in which a middle may end before it."""

    tokens: Tokens  # the middle ends with a whole token
    spaced: dict[bytes, Tokens]  # it ends with a space, which the suffix's first token holds
    swallowed: dict[bytes, Tokens]  # its last token goes on with these characters of the suffix

    @property
    def watched(self) -> Tokens:
        """First tokens of the suffix: their log-probability is recorded at every position of a continuation."""
        starts = (self.tokens, *self.spaced.values())
        return tuple(dict.fromkeys(tokens[0] for tokens in starts if tokens))


def read_suffix(prompt: Prompt, vocab: Vocab) -> Suffix:
    text = prompt.parts[0] if prompt.parts and isinstance(prompt.parts[0], str) else ""
    text = text[: 16 * SCORED_SUFFIX]

    def read(text: str) -> Tokens:
        return tuple(text_tokens(vocab, text, False, prompt.parse_special)[:SCORED_SUFFIX])

    tokens: list[int] = []
    for part in prompt.parts:
        if len(tokens) < SCORED_SUFFIX:
            tokens += read(part[: 16 * SCORED_SUFFIX]) if isinstance(part, str) else part
    spaces = _SPACES if text and not text[0].isspace() else ()
    heads = [text[:size] for size in range(1, min(len(text), _MAX_SWALLOWED) + 1)]
    return Suffix(
        tuple(tokens[:SCORED_SUFFIX]),
        {space.encode(): read(space + text) for space in spaces},
        {head.encode(errors="replace"): read(text[len(head) :]) for head in heads},
    )


class Drawn(NamedTuple):
    """One continuation of the prefix; lists have one entry per token."""

    tokens: list[int]
    pieces: list[bytes]
    logprobs: list[float]
    chances: list[dict[int, float]]  # log-probabilities of the watched tokens at this position
    num_bytes: int | None = None  # of its text, where a stop string ended it
    min_tokens: int = 1
    may_end: Sequence[bool] | None = None  # entry i: after i tokens; None: after any number
    stops: tuple[bytes, ...] = ()  # stop strings, which no space may complete
    bounds: Sequence[float] = ()  # the highest value of a watched token that `chances` lacks


@dataclass(eq=False)
class Cut:
    """A middle: drawn tokens, of which `text` is what stands before the suffix."""

    candidate: int
    tokens: Tokens
    text: bytes
    tail: Tokens  # the suffix as it is scored after them
    logprob: float  # of the drawn tokens
    scored: list[float] = field(default_factory=list)  # of the first tokens of the tail
    goal: int = 0  # how many tokens of the tail the next round scores
    bound: float = 0.0  # the most that the first token of the tail can add

    @property
    def value(self) -> float:
        return self.logprob + (math.fsum(self.scored) if self.scored else self.bound)


def find_cuts(candidate: int, drawn: Drawn, suffix: Suffix) -> list[Cut]:
    """All cuts: positions where the continuation may end and the suffix follow. A middle is never empty.

    With a constraint, cuts are only after whole tokens: the constraint was checked at no other position.
    """
    is_free = drawn.may_end is None
    cuts: list[Cut] = []
    text, logprob = b"", 0.0
    for at in range(len(drawn.tokens) + 1):
        before = tuple(drawn.tokens[:at])
        known = drawn.chances[at] if at < len(drawn.chances) else {}
        ends = {b"": suffix.tokens, **(suffix.spaced if is_free and text else {})}
        for space, tail in ends.items():
            if space and (text + space).endswith(drawn.stops):
                continue
            first = [known[tail[0]]] if tail and tail[0] in known else []
            bound = drawn.bounds[at] if tail and at < len(drawn.bounds) else 0.0
            cuts.append(Cut(candidate, before, text + space, tail, logprob, first, bound=bound))
        if at < len(drawn.tokens):
            piece = drawn.pieces[at]
            logprob += drawn.logprobs[at]
            for head, tail in suffix.swallowed.items() if is_free else ():
                if len(piece) > len(head) and piece.endswith(head):
                    middle, tokens = text + piece[: -len(head)], (*before, drawn.tokens[at])
                    cuts.append(Cut(candidate, tokens, middle, tail, logprob))
            text += piece
    return [cut for cut in cuts if cut.tokens and _is_allowed(cut, drawn)]


def _is_allowed(cut: Cut, drawn: Drawn) -> bool:
    size = len(cut.tokens)
    if not cut.text or size < drawn.min_tokens:
        return False
    if drawn.num_bytes is not None and len(cut.text) > drawn.num_bytes:
        return False
    if drawn.may_end is not None and not drawn.may_end[size]:
        return False
    try:
        cut.text.decode()
    except UnicodeDecodeError:
        return False
    return True


class Search:
    """Rounds of scoring, each of fewer cuts and more of the suffix, until the `n` best cuts are known."""

    def __init__(self, cuts: Sequence[Cut], n: int) -> None:
        same = {(cut.tokens, cut.text, cut.tail): cut for cut in reversed(cuts)}
        self._cuts = list(same.values())  # equal cuts are scored once
        self._n = n
        self._stages = iter(_STAGES)

    @property
    def best(self) -> list[Cut]:
        """The n best cuts, best first. Texts differ; they come from different candidates where possible."""
        order = sorted(self._cuts, key=_rank)
        chosen: dict[bytes, Cut] = {}
        for is_picky in (True, False):
            candidates = {cut.candidate for cut in chosen.values()} if is_picky else set()
            for cut in order:
                if len(chosen) == self._n:
                    break
                if cut.text not in chosen and cut.candidate not in candidates:
                    chosen[cut.text] = cut
                    if is_picky:
                        candidates.add(cut.candidate)
        return list(chosen.values())

    def next_round(self) -> list[Cut]:
        """Cuts to score up to their goals. An empty list: `best` is the answer."""
        for depth, width, margin in self._stages:
            self._drop(width * self._n, margin)
            if len(self._cuts) == 1 and _is_compared(self._cuts[0]):
                return []
            for cut in self._cuts:
                cut.goal = min(depth, len(cut.tail))
            unscored = [cut for cut in self._cuts if len(cut.scored) < cut.goal]
            if unscored:
                return unscored
        return []

    def _drop(self, width: int, margin: float) -> None:
        """Drop cuts far behind the best compared cut. Cuts in `best` are never dropped."""
        compared = (cut.value for cut in self._cuts if _is_compared(cut))
        floor = max(compared, default=-math.inf) - margin
        order = sorted(self._cuts, key=_rank)
        kept = dict.fromkeys((*self.best, *(cut for cut in order if cut.value >= floor)))
        self._cuts = list(kept)[:width]


def _is_compared(cut: Cut) -> bool:
    """Whether a token of the suffix is scored."""
    return bool(cut.scored) or not cut.tail


def _rank(cut: Cut) -> tuple[float, int, bytes]:
    return -cut.value, cut.candidate, cut.text
