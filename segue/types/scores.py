"""Log-probabilities of tokens: as objects, and those of a prompt as columns."""

from array import array
from collections.abc import Iterator
from itertools import repeat

from msgspec import Struct

LOWEST_LOGPROB = -9999.0  # stands for minus infinity, which JSON cannot say; clients add these up


class Alternative(Struct, frozen=True, array_like=True):
    token: int
    piece: bytes
    logprob: float


class TokenScore(Struct, frozen=True, array_like=True):
    """The score of one token: log-softmax of the raw logits, before penalties and temperature. With
    post_sampling_probs, a drawn token is scored by the distribution that it was drawn from."""

    token: int
    piece: bytes
    logprob: float | None  # None for the first token of a prompt, which nothing precedes
    rank: int  # 1 is the likeliest; 0 where logprob is None
    top: tuple[Alternative, ...]  # likeliest first, also of tokens that were asked for by id
    is_shown: bool = True  # whether its piece is in the text; control tokens are usually left out


class PromptScores(Struct, frozen=True, array_like=True):
    """The scores of a prompt's tokens, as columns of 32-bit numbers. Iterated, each is a TokenScore.

    There may be a million: objects are made of them where an answer is written, and not where others wait.
    """

    known: tuple[tuple[int, bytes], ...]  # all tokens that occur, with their pieces
    tokens: bytes  # integers: places in `known`
    logprobs: bytes  # floats; NaN where nothing precedes the token
    ranks: bytes  # integers
    tops: bytes  # of every token with a score as many places in `known`, likeliest first
    values: bytes  # floats: the log-probabilities of these

    def __len__(self) -> int:
        return len(self.tokens) // 4

    @property
    def num_scores(self) -> int:
        """Tokens and their alternatives."""
        return len(self) + len(self.tops) // 4

    def __iter__(self) -> Iterator[TokenScore]:
        known = self.known
        logprobs = [None if value != value else value for value in _floats(self.logprobs)]
        num_scored = len(logprobs) - logprobs.count(None)
        num_top = len(self.tops) // 4 // max(1, num_scored)
        others = map(known.__getitem__, _integers(self.tops))
        alternatives = (
            Alternative(token, piece, value)
            for (token, piece), value in zip(others, _floats(self.values), strict=True)
        )
        for place, logprob, rank in zip(
            _integers(self.tokens), logprobs, _integers(self.ranks), strict=True
        ):
            count = 0 if logprob is None else num_top
            top = tuple([next(alternatives) for _ in repeat(None, count)])
            yield TokenScore(*known[place], logprob, rank, top)


def _integers(column: bytes) -> list[int]:
    return array("i", column).tolist()


def _floats(column: bytes) -> list[float]:
    return array("f", column).tolist()
