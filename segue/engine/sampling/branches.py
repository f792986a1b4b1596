"""Diverse candidates: each one begins with a different one of the likeliest beginnings.

A candidate has a branch number b. At each position with m > 1 plausible tokens it takes the token of rank b mod m and
continues with branch b div m, until that is 0. So the first m candidates differ in the first such token. Where only one
token is plausible, all candidates take it and differ later.
"""

from collections.abc import Collection

from segue import exact_math
from segue.engine.sampling.candidates import Candidates, top

_PLAUSIBLE = 0.01  # least probability of a plausible token
_UNSURE = 0.1  # with `is_given`: least probability, relative to the likeliest token
_MOST = 64  # plausible tokens considered


def branch_off(
    candidates: Candidates, branch: int, ends: Collection[int], is_given: bool
) -> tuple[int, int | None]:
    """The token of this branch, and the branch number that remains, if any. End tokens are not taken.

    `is_given`: the text of this token was removed from the prompt by token healing. Candidates then differ here only
    if a longer token is likely enough, and keep their branch number for the first token of the answer.
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
