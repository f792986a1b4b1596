"""The seams: what the server asks of an engine, and what the engine asks of a runner and a vocabulary."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from segue.types import (
    Adapter,
    CompletionRequest,
    Event,
    ModelInfo,
    ServedAdapter,
    Stats,
)

Logits = NDArray[np.float32]
Sink = Callable[[Sequence[Event]], None]


# --- request level, async -------------------------------------------------------------------------


class Engine(Protocol):
    @property
    def info(self) -> ModelInfo: ...

    @property
    def is_idle(self) -> bool:
        """Whether no request and no other call is open. A request is open once its first event was asked for."""

    def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        """The events of one request, ending in Done or Failed. Closing the generator cancels it.

        With a `sink`, an engine may hand it events directly, those of one step together: no task is woken for
        them. The generator then yields the rest, Done or Failed always among it.
        """

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        """The bytes of each token; joined, they are the text. Unknown ids raise InvalidField."""

    async def lists(self) -> dict[str, bytes]:
        """What the model's file lists, as JSON by key: its vocabulary, its `tensors`. Empty if it is no such file."""

    async def stats(self) -> Stats:
        """The last known figures, with their age. Never waits. Raises Unavailable while the engine is not up."""

    async def close(self, drain_s: float = 0.0) -> None:
        """Let running requests finish for at most `drain_s`, end the rest with an error, then stop."""


class Models(Protocol):
    """The engines of a server, by name. Implemented by engine/process/fleet.py."""

    @property
    def names(self) -> list[str]:
        """Every served name, the default first. Aliases are included."""

    def resolve(self, name: str, exact: bool = False) -> str:
        """The served name that is meant: of a name, an alias or `default`. Raises UnknownModel.

        Where one model is served any other name means it too, unless `exact`.
        """

    async def open(self, name: str) -> Engine:
        """The engine of that name, started if need be. Raises UnknownModel."""

    def loaded(self, name: str) -> Engine | None:
        """The same without starting anything: None while it is not up."""

    def known(self, name: str) -> ModelInfo | None:
        """What can be told of it, while it is not up too. None: nothing."""

    def is_loading(self, name: str) -> bool:
        """Whether it is being started now. Neither loaded nor loading: it waits to be used."""

    def keep(self, name: str, seconds: float) -> None:
        """Unload it once nobody used it for that long; infinity keeps it, 0 unloads it when idle."""

    def expires_s(self, name: str) -> float | None:
        """Seconds until it is unloaded if nobody uses it. None: it is not up, or stays."""

    def adapters(self, name: str) -> list[ServedAdapter]:
        """The LoRA adapters of that model. Their names are served names too, and resolve to the model."""

    def settle_adapters(
        self, name: str, wanted: tuple[Adapter, ...] | None, param: str = "lora"
    ) -> tuple[Adapter, ...]:
        """What a request to that served name is computed with: names and scales, those of scale 0 left out.

        Raises InvalidField, which names the field `param`.
        """

    async def apply_adapters(self, name: str, wanted: tuple[Adapter, ...]) -> None:
        """From now on requests that say nothing of adapters get these. Raises InvalidField.

        Returns once every server process knows.
        """

    async def close(self, drain_s: float = 0.0) -> None: ...


# --- step level, sync, owned by one thread --------------------------------------------------------


Mix = tuple[tuple[int, float], ...]
"""LoRA adapters by their place in Capabilities.adapters, each with its scale."""


class Span(NamedTuple):
    """Consecutive tokens of one sequence to compute in this step."""

    slot: int
    tokens: Sequence[int]  # in a step begun ahead also -1 - i: what draw i of the step before gives
    past: int  # how many tokens the slot holds already; the span is appended after them
    num_logits: int  # how many of the trailing tokens want a row of logits (0 to len(tokens))
    adapters: Mix = ()  # the same for all tokens of a slot


Adjust = Literal["penalties", "dry"]
CutKind = (
    Adjust
    | Literal["scale", "dynamic_scale"]
    | Literal["top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc", "infill"]
)
ADJUSTS: frozenset[CutKind] = frozenset({"penalties", "dry"})  # change logits, remove no token


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
    drawn: int | None = None  # a draw of the step before, whose feedback is used instead of `sum`


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

    allowed: NDArray[np.uint8] | None = (
        None  # by the constraint: a bit per token, the lowest first; None: all
    )
    changes: Changes | None = None  # bans of tokens that would complete a banned phrase
    costs: Changes | None = None  # what the cut `dry` adds


class Late:
    """A draw that is begun before all about it is known. The rest is told once, while it is open: by `Runner.tell`."""

    __slots__ = ("told", "words")

    def __init__(self) -> None:
        self.told: Told | None = None
        # For the runner. The first word is 0 until the draw is told.
        self.words: NDArray[np.int64] = np.zeros(8, np.int64)


MAX_CUTS = 10  # of a draw: room for every step of the sampler once


class Draw(NamedTuple):
    """A token to draw from a row of logits."""

    row: int
    point: float  # in [0, 1)
    cuts: tuple[Cut, ...]  # at most MAX_CUTS, in order; adjustments once each
    # What follows is only given to `begin`. If one of the first three is given, no other draw is from this row.
    changes: Changes | None = None  # made to the row before the cuts
    repeats: Repeats | None = None  # given if a cut is `penalties`
    late: Late | None = None  # its mask is applied before `changes`, its own changes after them
    feedback: Feedback | None = None  # of mirostat or adaptive-p, which act after the cuts
    texts: Texts | None = (
        None  # given if a cut is `infill`; then adjustments come before all other cuts
    )


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
    can_trim: bool = True  # recurrent models cannot: only whole sequences can be forked
    free_rows: int = 1  # so many rows cost little more than one: room for drafts
    draws: bool = False  # whether `draw` is worth calling
    rows_ahead: int = 0  # rows of logits, and draws, that a begun step may have; 0: none is begun
    adapters: tuple[str, ...] = ()  # names of the LoRA adapters that spans may have
    has_priorities: bool = False  # whether requests may have one
    deterministic: bool = False  # logits are bitwise independent of batch-mates and chunking


class Runner(Protocol):
    """Compute. A slot is one sequence's KV, empty until a span or a fork fills it."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def cells_free(self) -> int:
        """Cells that spans can still take; a span may need up to a block more than its tokens."""

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
        """Fill the empty slot `dst` with the first `length` tokens of `src`."""

    def trim(self, slot: int, length: int) -> None:
        """Forget all but the first `length` tokens."""

    def free(self, slot: int) -> None:
        """Empty the slot."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class FimTokens:
    """The ids of a model's fill-in-the-middle tokens; None where the model has no such token."""

    prefix: int
    suffix: int
    middle: int | None
    pad: int | None = None
    repo: int | None = None
    file_sep: int | None = None
    suffix_first: bool = False  # whether the model knows that order only


class Vocab(Protocol):
    """Tokenizer of the served GGUF. Safe to call from several threads at once, except for `close`."""

    @property
    def size(self) -> int: ...

    @property
    def bos(self) -> int | None: ...

    @property
    def eos(self) -> int | None: ...

    @property
    def adds_bos(self) -> bool: ...

    @property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a generation: EOS, EOT and their kin."""

    @property
    def fim(self) -> FimTokens | None: ...

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]: ...

    def piece(self, token: int) -> bytes:
        """The token's bytes, those of control tokens as written ("<|im_end|>")."""

    def is_control(self, token: int) -> bool:
        """Control tokens are not part of the output's text."""

    def close(self) -> None: ...


class Model(NamedTuple):
    """What the preparation of a request needs to know of the loaded model."""

    vocab: Vocab
    capabilities: Capabilities


class Loaded(NamedTuple):
    runner: Runner
    vocab: Vocab
    info: ModelInfo
    draft: Runner | None = None  # of a small model with the same vocabulary, for drafts
    lists: Callable[[], dict[str, bytes]] = dict  # what Engine.lists gives; slow

    @property
    def model(self) -> Model:
        return Model(self.vocab, self.runner.capabilities)


class Loader(Protocol):
    """A picklable value, called once in the worker process. The command line chooses which."""

    def __call__(self) -> Loaded: ...
