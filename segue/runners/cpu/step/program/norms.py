"""Norms of the residual, and what they add to it first."""

from collections.abc import Sequence
from dataclasses import dataclass

from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.program.words import NORMS, Row, float_word
from segue.runners.cpu.weights import Weights

LEARNED = "position_embd.weight"
NORM_WORDS = 14  # words of a norm's instruction before its kind: see rows.py


@dataclass(frozen=True)
class Summand:
    """An output that the next norm first adds to the residual."""

    address: int
    bias: int
    norm: int  # weights of the output's own norm, or 0
    scale: float = 0.0  # its own factor; 0: that of all


def summand(
    weights: Weights, name: str, product: str, place: int, which: int, scale: float = 0.0
) -> Summand:
    norm = weights.hparams.family.after[which]
    weight = weights.vector(f"{name}{norm}.weight") if norm else 0
    return Summand(place, weights.vector(f"{name}{product}.bias"), weight, scale)


def sub_norm(weights: Weights, name: str, place: int, columns: int, target: int) -> Row:
    """Norm what a product takes, in place: the words of NARROW, see recurrent/selective.py. `target`: the board's index
    of the input whose floats are at `place`.
    """
    words = [place, 4 * columns, columns, target, 0, 0, weights.vector(f"{name}.weight"), 0, 0]
    return [on.NARROW, *words, float_word(weights.hparams.epsilon)]


def norm(
    weights: Weights,
    name: str,
    norm: str,
    source: int,
    summands: Sequence[Summand],
    *,
    sum_scale: int = 0,
    end: str = "weight",
    passage: Sequence[int] = (),
) -> Row:
    """The words of rows.py, in its order. `end`: of the name of the norm's weights. `passage`: see passes.py."""
    hparams, family = weights.hparams, weights.hparams.family
    row = [on.NORM, source]
    if source == on.FROM_EMBEDDING:
        learned = weights.matrix(LEARNED) if weights.has(LEARNED) else 0
        row += [weights.matrix("token_embd.weight"), float_word(hparams.embedding_scale), learned]
    else:
        row += [0, 0, 0]
    for each in summands:
        scale = float_word(each.scale or hparams.residual_scale)
        row += [each.address, 4 * hparams.width, each.bias, each.norm, scale]
    row += [0] * (1 + NORM_WORDS - len(row))
    kind = NORMS[hparams.norm]
    vectors = [weights.vector(f"{name}{norm}.{end}"), weights.vector(f"{name}{norm}.bias")]
    if not family.has_norm_weights:
        vectors[0] = weights.ones(hparams.width)
    own = kind if norm else on.NO_NORM
    after = float_word(family.after_epsilon or hparams.epsilon)
    row += [own, *vectors, float_word(hparams.epsilon), kind, after, sum_scale]
    return [*row, *passage]
