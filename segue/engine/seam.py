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
        """Whether no request is open, from the moment its first event was asked for, and no other call."""

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
        """The last known figures, with their age. Never waits. Raises Unavailable while it is not up."""

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
    adapters: Mix = ()  # that the slot's tokens before were computed with too


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
    # The temperature, the lowest if it is dynamic; the mass; how far below the best, in logits (not above 0);
    # deviations; the threshold of xtc.
    value: float
    keep: int  # how many of top_k; of those that go by probability: at least so many
    reach: float = 0.0  # of a dynamic temperature: how far above the lowest the highest is
    exponent: float = 1.0  # of a dynamic temperature, not below 0


@dataclass(frozen=True, eq=False)
class Changes:
    """What the sampler does to a row of logits before it draws: biases, bans (-inf), and a list of allowed tokens.

    It lives as long as its sampler, or what was told, and does not change: a runner may keep its address meanwhile.
    """

    ids: NDArray[np.int64]  # each at most once
    added: NDArray[np.float32]
    only: NDArray[np.int64] | None = None  # draw from these, in this order; they ascend


class Repeats(NamedTuple):
    """How a draw treats tokens that occurred, where its cuts name penalties, as the sampler's penalties do.

    `tokens` may grow at its end while the draw is open: the first `end` of them do not change.
    """

    tokens: NDArray[np.int64]  # of prompt and output, in order
    first: int  # the repetition penalty is for those from here on
    counted: int  # presence and frequency penalties for those from here on; not before `first`
    end: int
    repetition: float  # these three are exact in 32 bits
    presence: float
    frequency: float
    drawn: int | None = None  # draw of the step before, whose token comes after `end`


class MirostatState(NamedTuple):
    """Mirostat, after all cuts: the draw makes its next mu."""

    version: int
    tau: float
    eta: float
    mu: float
    drawn: int | None = None  # draw of the step before, whose next mu is taken instead
    # If a draw gives no token, its next mu is this one.


class AdaptiveState(NamedTuple):
    """Adaptive-p, after all cuts: the draw makes its next sum, as mirostat its mu."""

    target: float
    decay: float
    sum: float  # of probabilities drawn, earlier ones decayed
    total: float  # of their weights
    drawn: int | None = None


@dataclass(frozen=True, eq=False)
class Texts:
    """What tokens add to a text, for the cut infill. It does not change: a runner may keep its address meanwhile."""

    starts: NDArray[np.int64]  # where the text of each token begins; one more: where the last ends
    joined: NDArray[np.uint8]  # all texts
    are_ends: NDArray[np.uint8]  # 1 for each token that ends a text, else 0
    end: int | None  # the one that is drawn if no text is likely, unless it is banned


class Told(NamedTuple):
    """What the tokens before a draw make of it."""

    allowed: NDArray[np.uint8] | None = None  # a mask: a bit a token, the lowest first; None: all
    changes: Changes | None = None  # bans
    costs: Changes | None = None  # what is added where its cuts name dry


class Late:
    """What a draw must know of the tokens before it, told while its step is open: by `Runner.tell`, once."""

    __slots__ = ("told", "words")

    def __init__(self) -> None:
        self.told: Told | None = None
        # The runner's; the first is 0 until it is told.
        self.words: NDArray[np.int64] = np.zeros(8, np.int64)


MAX_CUTS = 10  # of a draw: each kind once


class Draw(NamedTuple):
    """A token to draw from a row of logits."""

    row: int
    point: float  # in [0, 1)
    cuts: tuple[Cut, ...]  # at most MAX_CUTS, in order; adjustments once each
    # To the row, for this draw, its only one. Only given to `begin`, with all that follows.
    changes: Changes | None = None
    repeats: Repeats | None = None
    late: Late | None = None  # its mask comes before all that, its changes after those above
    feedback: MirostatState | AdaptiveState | None = None  # what goes from draw to draw
    texts: Texts | None = None  # where infill is a cut; then no adjustment comes after another cut


class Step(NamedTuple):
    """What a step that was begun gives."""

    logits: Logits  # as the model gave them, without changes and penalties of draws
    tokens: Sequence[int | None]  # one per draw; None: left to the sampler
    # One per draw, the next mu of those with mirostat, the next sum of those with adaptive-p; none if none has it.
    mus: Sequence[float] = ()


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

        One more step may be begun before the first has ended: it runs after it, and a span of one token may take a
        draw of that step as its token, and a draw count it among its repeats. Where the draw gives none, token 0 is
        taken; the caller trims the slot. While a step is open, only `begin`, `end`, `tell` and `cells_free` are called.

        A draw that waits for what is `late` gives no token if it is not told in time: a step waits for all of it some
        milliseconds at most.
        """

    def tell(self, late: Late, told: Told | None) -> None:
        """Tell a draw what is late, at any time and from any thread. None: nothing is to be drawn.

        Tokens beyond the end of a mask are not allowed. Arrays are not changed from then on.
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
    lists: Callable[[], dict[str, bytes]] = dict  # reads Engine.lists

    @property
    def model(self) -> Model:
        return Model(self.vocab, self.runner.capabilities)


class Loader(Protocol):
    """A picklable value, called once in the worker process. The command line chooses which."""

    def __call__(self) -> Loaded: ...
