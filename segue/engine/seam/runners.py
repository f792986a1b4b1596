"""What the engine asks of a runner: step by step, sync, from one thread."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam.draws import Draw, Late, Told

Logits = NDArray[np.float32]
Mix = tuple[tuple[int, float], ...]
"""LoRA adapters by their place in Capabilities.adapters, each with its scale."""


class Span(NamedTuple):
    """Consecutive tokens of one sequence to compute in this step."""

    slot: int
    tokens: Sequence[int]  # in a step begun ahead also -1 - i: what draw i of the step before gives
    past: int  # how many tokens the slot holds already; the span is appended after them
    num_logits: int  # how many of the trailing tokens want a row of logits (0 to len(tokens))
    adapters: Mix = ()  # the same for all tokens of a slot
    # Of a slot that cannot be trimmed: how many of its last tokens it can give back afterwards, 1 to `can_give_back`.
    returnable: int = 1


class Step(NamedTuple):
    """What a step that was begun gives."""

    logits: Logits  # as the model gave them: what draws changed is undone
    tokens: Sequence[int | None]  # one per draw; None: left to the sampler
    # The number that each draw feeds back: mirostat's mu or adaptive-p's sum after it. Empty if no draw has feedback.
    feedback: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    num_slots: int  # sequences that can hold KV at once, cached prefixes included
    num_cells: int  # KV capacity in tokens, over all slots
    context_length: int  # the longest single sequence
    max_rows: int  # tokens a step can carry, over all spans
    vocab_size: int  # the width of a row of logits
    cells_per_block: int = 1  # cells are handed out in blocks of this many tokens
    state_bytes: int = 0  # that a slot takes beside its cells, if layers carry states
    can_trim: bool = True  # recurrent models cannot go back to any token
    can_give_back: int = 0  # last tokens that a slot can lose otherwise: see Span.returnable
    draft_rows: int = 1  # the most rows of a step with drafts from texts; how many pay is learned
    draws: bool = False  # whether `draw` is worth calling
    rows_ahead: int = 0  # rows of logits, and draws, that a begun step may have; 0: none is begun
    adapters: tuple[str, ...] = ()  # names of the LoRA adapters that spans may have
    has_priorities: bool = False  # whether requests may have one
    deterministic: bool = False  # logits are bitwise independent of batch-mates and chunking

    @property
    def most_returnable(self) -> int:
        """The most of its last tokens that a slot can give back."""
        return self.context_length if self.can_trim else self.can_give_back


class Runner(Protocol):
    """Compute. A slot is one sequence's KV, empty until a span or a fork fills it."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def cells_free(self) -> int:
        """Cells that spans can still take; a span may need up to a block more than its tokens."""

    def cells_held(self, slots: Iterable[int]) -> int:
        """Cells that these slots have: one that several of them share counts once."""

    def decode(self, spans: Sequence[Span]) -> Logits:
        """One step. Rows in the order of the spans, each span's trailing tokens in order.

        At most one span per slot. The array may be overwritten by the next call.
        """

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        """Tokens from rows that the last `decode` gave, as they are by now: what the sampler would draw, to the bit.

        Called only of a runner that `draws`. None: this one is left to the sampler.
        """

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        """Begin a step, and return before it has its logits. It takes its cells now, and in the end draws these tokens.

        One more step may be begun before the first has ended; it runs after the first. Its spans of one token, and its
        draws' repeats and feedback, may name draws of the first step. Where such a draw gives no token, token 0 is
        taken; the caller trims the slot. While a step is open, only `begin`, `end`, `tell` and `cells_free` are called.

        A draw with `late` gives no token unless it is told in time: all such draws of a step together are waited for a
        few milliseconds at most.
        """

    def tell(self, late: Late, told: Told | None) -> None:
        """Tell a draw what was not known when it was begun. At any time, from any thread. None: it draws nothing.

        Tokens beyond the end of a mask are not allowed. The arrays must not be changed afterwards.
        """

    def end(self) -> Step:
        """Wait for the step that was begun first. Its logits stay until the next one is begun or decoded."""

    def fork(self, src: int, dst: int, length: int) -> None:
        """Fill the empty slot `dst` with the first `length` tokens of `src`, as many as it could be trimmed to."""

    def trim(self, slot: int, length: int) -> None:
        """Forget all but the first `length` tokens."""

    def free(self, slot: int) -> None:
        """Empty the slot."""

    def close(self) -> None: ...


class MtpDrafting(Protocol):
    """A runner whose model has an MTP layer: one of its own for further tokens."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def cells_free(self) -> int: ...

    def draft_step(self, spans: Sequence[Span]) -> Logits:
        """Guesses at what follows, a row of logits for each span, of one token.

        The span goes on from what its slot holds, or from the span before it in such a call. No step is open. The array
        may be overwritten by the next call.
        """

    def forget_drafts(self) -> None:
        """Let slots hold what they held before. Called before anything else is done to them."""
