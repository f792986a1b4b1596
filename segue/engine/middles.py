"""Which middle fits best between a prefix and a suffix, among continuations of the prefix cut at every place.

The best is the one with the highest log p(middle | prefix) + log p(suffix | prefix, middle). Log-probabilities only
ever lower the sum, so the sum over the tokens scored so far is a bound, and a cut is scored further only while its
bound is among the best: most are out after one token of suffix, which the drawing has scored for nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from segue.engine.seam import Vocab
from segue.engine.tokens import text_tokens
from segue.types import Prompt

SCORED_SUFFIX = 32  # tokens of the suffix that have a say
_STAGES = (4, 12, SCORED_SUFFIX)  # how far a cut is scored at a time
_WIDTH = 16  # cuts scored in one round
_MAX_SWALLOWED = 16  # characters of the suffix that the last token of a middle may hold already
Tokens = tuple[int, ...]
_SPACES = (" ", "\n")


@dataclass(frozen=True)
class Suffix:
    """The suffix as tokens, for each way a middle may end before it."""

    tokens: Tokens  # the middle ends with a whole token
    spaced: dict[bytes, Tokens]  # it ends with a space, which the suffix's first token holds
    swallowed: dict[bytes, Tokens]  # its last token goes on with these characters of the suffix

    @property
    def watched(self) -> Tokens:
        """First tokens, whose probability at every place of a continuation is worth knowing."""
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
    """One continuation of the prefix; lists have an entry a token."""

    tokens: list[int]
    pieces: list[bytes]
    logprobs: list[float]
    chances: list[dict[int, float]]  # log-probabilities of the watched tokens in its place
    num_bytes: int | None = None  # of its text, where a stop string ended it


@dataclass(eq=False)
class Cut:
    """A middle: drawn tokens, of which `text` is what stands before the suffix."""

    candidate: int
    tokens: Tokens
    text: bytes
    tail: Tokens  # the suffix as it is scored after them
    logprob: float  # of the drawn tokens
    scored: list[float] = field(default_factory=list)  # of the first tokens of the tail

    @property
    def bound(self) -> float:
        return self.logprob + sum(self.scored)

    @property
    def is_complete(self) -> bool:
        return len(self.scored) == len(self.tail)

    @property
    def num_next(self) -> int:
        """How many tokens of the tail are scored after its next round."""
        return min(next(s for s in _STAGES if s > len(self.scored)), len(self.tail))


def find_cuts(candidate: int, drawn: Drawn, suffix: Suffix) -> list[Cut]:
    """Every place where the continuation could give way to the suffix; never an empty middle."""
    cuts: list[Cut] = []
    text, logprob = b"", 0.0
    for at in range(len(drawn.tokens) + 1):
        before = tuple(drawn.tokens[:at])
        known = drawn.chances[at] if at < len(drawn.chances) else {}
        ends = {b"": suffix.tokens, **suffix.spaced} if text else {}
        for space, tail in ends.items():
            first = [known[tail[0]]] if tail and tail[0] in known else []
            cuts.append(Cut(candidate, before, text + space, tail, logprob, first))
        if at < len(drawn.tokens):
            piece = drawn.pieces[at]
            logprob += drawn.logprobs[at]
            for head, tail in suffix.swallowed.items():
                if len(piece) > len(head) and piece.endswith(head):
                    middle, tokens = text + piece[: -len(head)], (*before, drawn.tokens[at])
                    cuts.append(Cut(candidate, tokens, middle, tail, logprob))
            text += piece
    return [cut for cut in cuts if _is_shown(cut.text, drawn)]


def _is_shown(middle: bytes, drawn: Drawn) -> bool:
    if drawn.num_bytes is not None and len(middle) > drawn.num_bytes:
        return False
    try:
        middle.decode()
    except UnicodeDecodeError:
        return False
    return True


class Search:
    """Rounds of scoring until the `n` best cuts are known for sure."""

    def __init__(self, cuts: Sequence[Cut], n: int) -> None:
        same = {(cut.tokens, cut.text, cut.tail): cut for cut in reversed(cuts)}
        self._cuts = list(same.values())  # what was drawn twice is scored once
        self._n = n
        self.best: list[Cut] = []

    def next_round(self) -> list[Cut]:
        """Cuts to score further. None: `best` is the answer, best first."""
        self._cuts.sort(key=lambda cut: (-cut.bound, cut.candidate, cut.text))
        self.best = []
        unsure: dict[Cut, None] = {}
        for is_picky in (True, False):  # first one middle of each candidate, then any others
            texts = {cut.text for cut in self.best}
            candidates = {cut.candidate for cut in self.best} if is_picky else set()
            for cut in self._cuts:
                if len(self.best) == self._n or len(unsure) == _WIDTH:
                    return list(unsure)
                if cut.text in texts or cut.candidate in candidates:
                    continue
                if not cut.is_complete:
                    unsure[cut] = None
                    continue
                self.best.append(cut)
                texts.add(cut.text)
                if is_picky:
                    candidates.add(cut.candidate)
        return list(unsure)
