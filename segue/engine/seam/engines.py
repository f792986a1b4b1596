"""What the server asks of an engine, and of all engines: request by request, async."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from segue.types import (
    Adapter,
    CompletionRequest,
    Event,
    ModelChange,
    ModelInfo,
    ServedAdapter,
    SlotAction,
    SlotResult,
    Stats,
)

Sink = Callable[[Sequence[Event]], None]


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

    async def act_on_slot(self, action: SlotAction) -> SlotResult:
        """Save, restore or erase a client's slot. Raises RequestError, or ServiceError where it may be tried again."""

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

    def listen(self, heard: Callable[[ModelChange | None], None]) -> Callable[[], None]:
        """Have `heard` called with what becomes of models, until what this returns is called. None: nothing more comes.

        Raises Unavailable where too many listen.
        """

    def keep(self, name: str, seconds: float | None) -> None:
        """Unload it once nobody used it for that long; infinity keeps it, 0 unloads it when idle, None is no wish."""

    async def keep_in_all(self, name: str, seconds: float | None) -> None:
        """The same. Returns once every server process knows."""

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
