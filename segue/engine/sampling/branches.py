"""Candidates that explore: the likeliest beginnings, each once.

A candidate's branch is a number that is spent from the first token on: where m > 1 tokens are plausible, branch b takes
the one ranked b mod m and goes on as branch b div m, until that is 0. So the first m candidates begin differently;
where the model is sure of the next token they all take it and part later.
"""

from collections.abc import Collection

from segue import exact_math
from segue.engine.sampling.candidates import Candidates, top

_PLAUSIBLE = 0.01  # of the probability
_UNSURE = 0.1  # of the likeliest
_MOST = 64  # plausible tokens looked at


def branch_off(
    candidates: Candidates, branch: int, ends: Collection[int], is_given: bool = False
) -> tuple[int, int | None]:
    """The token of this branch, and the branch to go on as, if any. Tokens that end the text are not taken.

    `is_given`: the prompt ends with this token's text, so candidates shall part here only where it is unsure
    that the token ends with it, and even so the answer has yet to begin.
    """
    weights = candidates.weights()
    best = top(candidates.logits, _MOST)
    floor = max(_PLAUSIBLE * exact_math.total(weights), _UNSURE if is_given else 0.0)
    likely = best[weights[best] >= floor]
    tokens = [candidates.token(int(index)) for index in likely]
    tokens = [token for token in tokens if token not in ends] or [candidates.token(int(best[0]))]
    rest = branch // len(tokens)
    is_left = rest > 0 or is_given or len(tokens) == 1
    return tokens[branch % len(tokens)], rest if is_left else None
