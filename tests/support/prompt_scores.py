"""Scores of a prompt as columns, made from those of its tokens."""

from array import array
from collections.abc import Iterable

from segue.types import PromptScores, TokenScore


def columns(scores: Iterable[TokenScore]) -> PromptScores:
    scores = list(scores)
    tops = [other for score in scores for other in score.top]
    pairs = [(score.token, score.piece) for score in scores]
    pairs += [(other.token, other.piece) for other in tops]
    known = list(dict.fromkeys(pairs))
    place = {pair: at for at, pair in enumerate(known)}
    nothing = float("nan")
    made = PromptScores(
        tuple(known),
        array("i", [place[score.token, score.piece] for score in scores]).tobytes(),
        array("f", [nothing if s.logprob is None else s.logprob for s in scores]).tobytes(),
        array("i", [score.rank for score in scores]).tobytes(),
        array("i", [place[other.token, other.piece] for other in tops]).tobytes(),
        array("f", [other.logprob for other in tops]).tobytes(),
    )
    assert list(made) == scores, "these cannot be the scores of a prompt"
    return made
