"""vLLM's log-probabilities → Segue's scores. Pure: vLLM's containers are described by protocols."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from segue.engine.sampling.scores import Scores
from segue.engine.seam import Vocab
from segue.types import LOWEST_LOGPROB, Alternative, TokenScore


class Entry(Protocol):
    @property
    def logprob(self) -> float: ...

    @property
    def rank(self) -> int | None: ...


class FlatLogprobs(Protocol):
    """Log-probabilities of a prompt: for each token but the first, the token itself, then its alternatives."""

    @property
    def token_ids(self) -> Sequence[int]: ...

    @property
    def logprobs(self) -> Sequence[float]: ...

    @property
    def ranks(self) -> Sequence[int | None]: ...


def prompt_scores(flat: FlatLogprobs, num_tokens: int) -> Scores:
    """Scores of all prompt tokens but the first."""
    num_rows = num_tokens - 1
    shape = num_rows, max(1, len(flat.token_ids) // max(1, num_rows))
    ids = np.array(flat.token_ids, np.int32).reshape(shape)
    values = np.maximum(
        np.array(flat.logprobs, np.float32).reshape(shape), np.float32(LOWEST_LOGPROB)
    )
    ranks = np.array(flat.ranks, np.int32).reshape(shape)
    return Scores(values[:, 0], ranks[:, 0], ids[:, 1:], values[:, 1:])


def following_scores(entries: Mapping[int, Entry], num_top: int) -> Scores:
    """What may follow: the likeliest tokens. The score of no single token is asked for."""
    ranked = sorted((entry.rank or 0, token) for token, entry in entries.items())
    ids = [token for rank, token in ranked if 0 < rank <= num_top]
    values = np.array([[entries[token].logprob for token in ids]], np.float32)
    none = np.zeros(1, np.float32)
    return Scores(
        none, none.astype(np.int32), np.array([ids], np.int32), np.maximum(values, LOWEST_LOGPROB)
    )


def drawn_score(
    token: int,
    entries: Mapping[int, Entry],
    num_top: int,
    vocab: Vocab,
    asked: Sequence[int],
) -> TokenScore:
    """The score of one drawn token. `entries`: the drawn token, and the likeliest ones or those that were `asked` for,
    which may include it."""
    own = entries[token]
    best = sorted((entry.rank or 0, other) for other, entry in entries.items())
    named = [other for rank, other in best if 0 < rank <= num_top]
    if asked:  # their ranks are their places in the list
        named = sorted(asked, key=lambda each: -entries[each].logprob)
    top = tuple(
        Alternative(other, vocab.piece(other), max(entries[other].logprob, LOWEST_LOGPROB))
        for other in named
    )
    return TokenScore(
        token, vocab.piece(token), max(own.logprob, LOWEST_LOGPROB), own.rank or 0, top
    )
