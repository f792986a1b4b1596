"""What a dialect is made of: rows that read a request, renderers that write events, error shapes.

A dialect is data. Adding one adds rows, a renderer and an error shape; the server has one endpoint
for all of them. Nothing here does I/O or looks at a clock: the server stamps each request.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct, structs

from segue.dialects.fields.defaults import Defaults, fill_in, keep
from segue.dialects.fields.foreign_constraints import refuse_foreign
from segue.dialects.fields.model_defaults import OfModel
from segue.dialects.fields.sampler_fields import name_idle_steps, split_biases
from segue.dialects.fields.table import Complaint, Draft, Table, complain
from segue.dialects.rendering.tally import Tally
from segue.errors import MalformedBody, SegueError
from segue.types import (
    Adapter,
    CompletionRequest,
    Event,
    ModelInfo,
    Sampling,
    Served,
    ServedAdapter,
    SlotAction,
    SlotResult,
    Stats,
)

NO_DEFAULTS: Defaults = {}

T = TypeVar("T")

# --- a request, read -----------------------------------------------------------------------------


def _no_clock() -> float:
    return 0.0


class Stamp(Struct, frozen=True, kw_only=True):
    """What the server knows of a request before reading its body."""

    request_id: str  # the engine's: unique, whatever the client calls its request
    public_id: str  # the client's own x-request-id, or the same as request_id
    created: int  # seconds since 1970
    arrived: float = 0.0  # the same, to the microsecond
    seed: int | None  # used when the request brings none
    fingerprint: str
    now: Callable[[], float] = _no_clock  # seconds since 1970, for answers with times


class Call(Struct, frozen=True, kw_only=True):
    """One request as the endpoint and the renderer see it."""

    stamp: Stamp
    request: CompletionRequest
    stream: bool = False
    keep_s: float | None = None  # how long the model stays loaded afterwards; 0 unloads it
    shape: Mapping[str, Any] = {}  # how the answer is to look: the rows whose target is shape.*
    ignored: tuple[str, ...] = ()  # fields that were sent and have no effect
    given: Mapping[str, str] = {}  # by target, the wire name it was given under
    named: str = ""  # the served name or alias the request used
    info: ModelInfo | None = None  # the model that answers, once it is known
    adapter_numbers: Mapping[str, int] = {}  # of the adapters of that model, by name

    @property
    def model(self) -> str:
        """What the answer calls its model: the name the request used."""
        return self.named or self.request.model


_TARGETS = {
    "": {"", "stream", "keep_s", *CompletionRequest.__struct_fields__},
    "sampling": set(Sampling.__struct_fields__),
}

INTERVAL = "stream_interval"  # in `shape`: how many tokens the chunks of a stream hold
TOLD = "told_chars"  # in `shape`: about how many characters of the request each choice tells
PING = "ping_interval"  # in `shape`: seconds of silence after which a stream has a comment

Rule = Callable[[Draft], None]
"""Checks or changes a draft where one field depends on another. Raises InvalidField."""


def build(draft: Draft, stamp: Stamp) -> Call:
    """The call a draft describes. Targets: a request field, sampling.*, shape.*, stream or keep_s."""
    parts: dict[str, dict[str, Any]] = {"": {}, "sampling": {}, "shape": {}}
    for target, value in draft.values.items():
        part, _, name = target.rpartition(".")
        parts[part][name] = value
    stream = parts[""].pop("stream", False)
    keep_s = parts[""].pop("keep_s", None)
    parts["sampling"].setdefault("seed", stamp.seed)
    parts[""].setdefault("model", "")
    return Call(
        stamp=stamp,
        request=CompletionRequest(
            request_id=stamp.request_id, sampling=Sampling(**parts["sampling"]), **parts[""]
        ),
        stream=stream,
        keep_s=keep_s,
        shape=parts["shape"],
        ignored=tuple(draft.ignored),
        given=draft.given,
    )


# --- an answer, written --------------------------------------------------------------------------


class Renderer(Protocol):
    """One request's answer on the wire, as objects that msgspec can encode."""

    def push(self, event: Event) -> list[Any]:
        """The objects a stream sends for this event. Failed never comes here."""

    def fold(self, tally: Tally) -> Any:
        """The one object of an answer that is not streamed."""


class Reply(Struct, frozen=True):
    """A whole answer. Text goes out as it is, a Flow as it comes, anything else as JSON.

    Header names are in small letters. A content-type among them stands for the usual one.
    """

    body: Any
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Source(Protocol):
    """What comes piece by piece, until there is no more. It is closed once nobody reads it any longer."""

    def __aiter__(self) -> AsyncIterator[Any]: ...

    async def aclose(self) -> None: ...


class Flow(NamedTuple):
    """The body of an answer that goes on while its client stays: what `render` makes of each piece, as events of a
    stream."""

    source: Source
    render: Callable[[Any], bytes]


ErrorShape = Callable[[SegueError], Reply]

# sse: events, then "data: [DONE]". sse_open: events, then the end. ndjson: an object per line.
Framing = Literal["sse", "sse_open", "ndjson"]

Adapt = Callable[[Call, ModelInfo], CompletionRequest]
"""Changes a request by what only the loaded model knows, such as its chat template. Raises RequestError."""

Check = Callable[[Call, ModelInfo], None]
"""Refuses what only the loaded model shows to be wrong. Quick: it is run in the event loop. Raises RequestError."""


@dataclass(frozen=True)
class Operation:
    """A completion as one path of one dialect offers it."""

    path: str
    doc: str
    table: Table
    renderer: Callable[[Call], Renderer]
    rules: tuple[Rule, ...] = ()
    _: KW_ONLY
    framing: Framing = "sse"
    error: ErrorShape | None = None  # where this path's errors differ from its dialect's
    stream_error: ErrorShape | None = None  # the event of a broken stream, where that differs too
    adapt: Adapt | None = None
    check: Check | None = None
    of_model: OfModel | None = None  # what it takes of a model's own sampling defaults
    exact_model: bool = False  # 404 for a name that is not served, even if there is one model only
    plain_name: Callable[[str], str] = str  # the served name that a model's name in a request means
    is_native: bool = False  # a path no other system has: served without the prefix as well
    priority_header: bytes = b""  # a number in it counts before the field priority
    name_header: bytes = b""  # a stream with a name in it goes on without its client
    reports_load: bool = False  # to who asks with the header endpoint-load-metrics-format
    complaint: Complaint = complain

    def __post_init__(self) -> None:
        for row in self.table.rows:
            part, _, name = row.target.rpartition(".")
            if part != "shape" and name not in _TARGETS[part]:
                raise ValueError(f"{self.path}: no target {row.target!r} for {row.name}")

    def parse(self, body: Any, stamp: Stamp, defaults: Defaults = NO_DEFAULTS) -> Call:
        """The call this JSON body asks for, with the server's defaults. Raises RequestError and nothing else."""
        draft = self.table.read(body, self.complaint)
        try:
            refuse_foreign(draft, body, self.table)
            fill_in(draft, defaults)
            split_biases(draft)
            for rule in self.rules:
                rule(draft)
            name_idle_steps(draft)
        except RecursionError:  # a rule may look into values that no row has read
            raise MalformedBody("The body is nested too deeply.") from None
        keep(draft, defaults)
        return build(draft, stamp)

    def fill(self, call: Call, info: ModelInfo, defaults: Defaults = NO_DEFAULTS) -> Call:
        """The call with the model's own defaults, where neither the request nor the server has set a value."""
        if self.of_model is None or info.defaults is None:
            return call
        settled = call.given.keys() | defaults.keys()
        return structs.replace(
            call, request=self.of_model.fill(call.request, info.defaults, settled)
        )


# --- what else clients ask a server --------------------------------------------------------------


class Card(Struct, frozen=True):
    """One served model. `info` is None while it is not up."""

    name: str
    created: int
    status: Literal["ok", "loading", "idle"]
    info: ModelInfo | None
    expires_s: float | None = None  # until it is unloaded, if nobody uses it; None: never
    aliases: tuple[str, ...] = ()  # the model's other names
    is_alias: bool = False  # the model has a card under its own name too
    parent: str = ""  # of a LoRA adapter: the model that it adapts
    remembered: ModelInfo | None = None  # while it is not up: what its file says, or what it was

    @property
    def is_leaving(self) -> bool:
        """Whether it is unloaded as soon as nobody uses it."""
        return self.expires_s == 0

    @property
    def known(self) -> ModelInfo | None:
        """Its facts, whether it is up or not; None: it is not known yet."""
        return self.info or self.remembered


class StreamFacts(NamedTuple):
    """A stream that its client may take up again. Both times are Unix time; `completed` is 0 until it has ended."""

    name: str
    is_done: bool
    num_bytes: int
    started: int
    completed: int


class Service(Protocol):
    """What a companion endpoint may ask. An empty model name means the default one."""

    @property
    def version(self) -> str: ...

    @property
    def defaults(self) -> Defaults:
        """The server's own defaults (`--default`), by target."""

    def now(self) -> float:
        """Seconds since 1970."""

    def cards(self) -> list[Card]:
        """Every served name, the default first."""

    def card(self, model: str) -> Card:
        """Of this very name. Raises UnknownModel."""

    def meant(self, model: str) -> Card:
        """Of the model that completes for this name, which is any where one is served. Raises UnknownModel."""

    async def tokenize(
        self, model: str, text: str, *, add_special: bool, parse_special: bool
    ) -> list[int]: ...

    async def pieces(self, model: str, tokens: list[int]) -> list[bytes]: ...

    async def lists(self, model: str) -> dict[str, bytes]:
        """What the file of a model that is up lists, as JSON by key; nothing of others: that does not load them."""

    async def convert(self, render: Callable[[T], Any], items: Sequence[T]) -> Any:
        """The items rendered, as a list; many of them beside the event loop, as the JSON of one."""

    async def open(self, model: str) -> None:
        """Until it is up. Raises SegueError."""

    def kept_stream(self, tenant: str, name: str, start: int) -> Source:
        """Its bytes from there on, as they come. Raises RequestError."""

    def kept_streams(self, tenant: str) -> list[StreamFacts]: ...

    def stop_stream(self, tenant: str, name: str) -> None: ...

    def watch(self) -> Source:
        """Each ModelChange from now on; None while nothing happens, for a sign of life. Raises Unavailable."""

    async def load(self, model: str) -> None:
        """The same; a client wants it to stay, and takes back an unload that waits for the model's last user."""

    async def unload(self, model: str) -> None:
        """As soon as nobody uses it; the next request loads it again. Raises Forbidden where clients may not."""

    def adapters(self, model: str) -> list[ServedAdapter]:
        """Its LoRA adapters; the place of one is its number."""

    async def apply_adapters(self, model: str, wanted: tuple[Adapter, ...]) -> None:
        """What its requests get from now on that say nothing of adapters. Raises InvalidField."""

    async def act_on_slot(self, model: str, action: SlotAction) -> SlotResult:
        """Save, restore, erase or look at a client's slots, of a model that is loaded for it. Raises SegueError."""

    def served(self, model: str) -> Served:
        """What became of a model's requests since the server started."""

    async def stats(self, model: str) -> Stats:
        """Raises Unavailable while the model is not up: looking at a model does not load it."""


NO_FIELDS = Table(())

Answer = Callable[[Service, Mapping[str, Any]], Awaitable[Reply]]
"""Called with the values of the table's targets and of the path's parameters."""


@dataclass(frozen=True)
class Companion:
    """Anything that is not a completion: models, health, tokenize, and a system's own pages."""

    method: Literal["GET", "POST", "DELETE"]
    path: str  # "/v1/models/{model:path}"
    doc: str
    answer: Answer
    table: Table = NO_FIELDS  # of the body, or of the query where the method has no body
    _: KW_ONLY
    is_native: bool = False
    list_field: str = ""  # a body that is a list is this field's value
    query_first: bool = False  # of a POST: the body is for fields that are not in the query
    adds_query: bool = False  # of a POST: fields of the query count too, and the body may be empty
    of_query: tuple[str, ...] = ()  # fields whose value in the query counts before the body's
    knows_key: bool = False  # it is told whose API key it was asked with, as `tenant`
    first_value_counts: bool = False  # of a field that is in the query twice; else the last does
    is_flow: bool = False  # its answer goes on: events of a stream
    is_public: bool = False  # asked by those that have no key; its body is not read
    is_counted: bool = True  # by its key's limits; else it is answered whatever they are
    error: ErrorShape | None = None  # where this path's errors differ from its dialect's

    @property
    def has_body(self) -> bool:
        return self.method == "POST" and bool(self.table.rows)

    def is_asked_by(self, query: Mapping[str, str]) -> bool:
        """Whether the query has all that must be told."""
        return all(row.name in query for row in self.table.rows if row.required)


class Difference(NamedTuple):
    """Where a dialect does on purpose what its system does not. Both are whole sentences."""

    what: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    name: str
    system: str  # what it speaks for, as people call it
    operations: tuple[Operation, ...]
    companions: tuple[Companion, ...]
    error: ErrorShape
    json_only: bool = True  # refuse bodies of another content type
    root_paths: tuple[str, ...] = ()  # starts of paths without a prefix that it alone has
    root_error: ErrorShape | None = None  # what those answer that are not served
    differences: tuple[Difference, ...] = ()
