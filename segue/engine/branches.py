"""Candidates that explore: the likeliest beginnings, each once.

A candidate's branch is a number that is spent from the first token on: where m > 1 tokens are plausible, branch b takes
the one ranked b mod m and goes on as branch b div m, until that is 0. So the first m candidates begin differently;
where the model is sure of the next token they all take it and part later.
"""

from collections.abc import Collection

import numpy as np

from segue.engine.candidates import Candidates, top

_PLAUSIBLE = 0.01  # of the probability
_MOST = 64  # plausible tokens looked at


def branch_off(
    candidates: Candidates, branch: int, ends: Collection[int]
) -> tuple[int, int | None]:
    """The token of this branch, and the branch to go on as, if any. Tokens that end the text are not taken."""
    weights = candidates.weights()
    best = top(candidates.logits, _MOST)
    likely = best[weights[best] >= _PLAUSIBLE * weights.sum(dtype=np.float64)]
    tokens = [candidates.token(int(index)) for index in likely]
    tokens = [token for token in tokens if token not in ends] or [candidates.token(int(best[0]))]
    rest = branch // len(tokens)
    return tokens[branch % len(tokens)], rest if rest or len(tokens) == 1 else None
