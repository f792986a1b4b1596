"""A draw: all that decides which token comes out of a row of logits."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

Adjust = Literal["penalties", "dry", "logit_bias"]
CutKind = (
    Adjust
    | Literal["scale", "dynamic_scale"]
    | Literal["top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc", "infill"]
)
ADJUSTS: frozenset[CutKind] = frozenset(get_args(Adjust))  # change logits, remove no token


class Cut(NamedTuple):
    """One step between logits and a draw, as the sampler's filters define it."""

    kind: CutKind
    # scale: the temperature. dynamic_scale: the lowest temperature. top_p, typical_p: the mass. min_p: what is added to
    # the best logit to get the lowest that is kept, not above 0. top_n_sigma: deviations. xtc: the threshold.
    value: float
    keep: int  # top_k: how many are kept. top_p, min_p, typical_p, xtc: at least so many are
    reach: float = 0.0  # dynamic_scale: the highest temperature less the lowest
    exponent: float = 1.0  # dynamic_scale: not below 0


@dataclass(frozen=True, eq=False)
class Changes:
    """What the sampler does to a row of logits before it draws: biases, bans (-inf), and a list of allowed tokens.

    Its arrays never change, and somebody holds them while a draw with them is open: a runner may keep their addresses.
    """

    ids: NDArray[np.int64]  # each at most once
    added: NDArray[np.float32]
    only: NDArray[np.int64] | None = None  # draw from these, in this order; they ascend


class Repeats(NamedTuple):
    """Penalties on tokens that occurred: what the cut `penalties` does. The sampler's `Penalties` do the same.

    `tokens` may be longer than `end`, and more may be written there while the draw is open; tokens[:end] do not change.
    """

    tokens: NDArray[np.int64]  # of prompt and output, in order
    first: int  # tokens[first:end] have the repetition penalty
    counted: int  # tokens[counted:end] have presence and frequency penalties; not before `first`
    end: int
    repetition: float  # these three are exact in 32 bits
    presence: float
    frequency: float
    repetition_last: bool = False  # the repetition penalty comes after the others, not before
    drawn: int | None = None  # a draw of the step before, whose token has all three penalties too


class MirostatState(NamedTuple):
    """Mirostat, which acts after all cuts. It feeds mu back: each draw changes mu for the draw after it."""

    version: int  # 1 or 2
    tau: float
    eta: float
    mu: float
    # A draw of the step before, whose feedback is used instead of `mu`. A draw without a token leaves mu as it was.
    drawn: int | None = None


class AdaptiveState(NamedTuple):
    """Adaptive-p, which acts after all cuts. It feeds its sum back, as mirostat feeds mu back."""

    target: float
    decay: float
    sum: float  # of the probabilities of tokens drawn so far; the earlier ones count less
    total: float  # what the sum would be if each had been 1
    drawn: int | None  # a draw of the step before, whose feedback is used instead of `sum`


Feedback = MirostatState | AdaptiveState
"""What a draw needs to know of the draws before it. One number of it changes with each: mu, or the sum."""


@dataclass(frozen=True, eq=False)
class Texts:
    """What each token adds to a text, for the cut `infill`. Its arrays never change: a runner may keep addresses."""

    starts: NDArray[np.int64]  # where the text of each token begins; one more: where the last ends
    joined: NDArray[np.uint8]  # all texts
    are_ends: NDArray[np.uint8]  # 1 for each token that ends a text, else 0
    end: int | None  # the one that is drawn if no text is likely, unless it is banned


class Told(NamedTuple):
    """What a draw must know and can know only when the token before it is known."""

    # What the constraint allows: a bit per token, the lowest first; None: all.
    allowed: NDArray[np.uint8] | None = None
    changes: Changes | None = None  # bans of tokens that would complete a banned phrase
    costs: Changes | None = None  # what the cut `dry` adds


class Late:
    """A draw that is begun before all about it is known. The rest is told once, while it is open: by `Runner.tell`."""

    __slots__ = ("told", "words")

    def __init__(self) -> None:
        self.told: Told | None = None
        # For the runner. The first word is 0 until the draw is told.
        self.words: NDArray[np.int64] = np.zeros(8, np.int64)


MAX_CUTS = 11  # of a draw: room for every step of the sampler once


class Draw(NamedTuple):
    """A token to draw from a row of logits."""

    row: int
    point: float  # in [0, 1)
    cuts: tuple[Cut, ...]  # at most MAX_CUTS, in order; adjustments once each
    # What follows is only given to `begin`. If changes are, repeats, late or biases, no other draw is from this row.
    changes: Changes | None = None  # made to the row before the cuts
    repeats: Repeats | None = None  # given if a cut is `penalties`
    late: Late | None = None  # its mask is applied before `changes`, its own changes after them
    feedback: Feedback | None = None  # of mirostat or adaptive-p, which act after the cuts
    texts: Texts | None = None  # given if a cut is `infill`; adjustments then come first
    biases: Changes | None = None  # given if a cut is `logit_bias`: what it adds, without a list
