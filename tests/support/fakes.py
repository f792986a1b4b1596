"""Doubles of the engine seam for the HTTP layer: they say what a script tells them to."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

from segue.engine.process.adapter_list import AdapterList
from segue.engine.process.fleet import Listeners
from segue.engine.seam import Sink
from segue.errors import Unavailable, UnknownModel
from segue.types import (
    Adapter,
    CompletionRequest,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    ModelChange,
    ModelInfo,
    Prompted,
    ServedAdapter,
    SlotAction,
    SlotResult,
    Stats,
    TokenScore,
    Usage,
)
from tests.support.prompt_scores import columns

INFO = ModelInfo(
    name="tiny",
    architecture="llama",
    runner="fake",
    context_length=2048,
    vocab_size=256,
    num_params=1,
    size_bytes=1,
    quantization="F32",
    has_fim=False,
    deterministic=True,
    fingerprint="fp_0123456789abcdef",
    kv_tokens=2048,
)


class Pause:
    """A place in a script where the engine waits until the test lets it go on, or for ever."""

    def __init__(self) -> None:
        self.go = asyncio.Event()


Script = Callable[[CompletionRequest], Iterable[Event | Pause | Exception]]


def prompt_text(request: CompletionRequest, prompt: int) -> str:
    parts = request.prompts[prompt].parts
    return "".join(part if isinstance(part, str) else bytes(part).decode() for part in parts)


def score(piece: bytes, logprob: float | None = -1.0) -> TokenScore:
    return TokenScore(piece[0], piece, logprob, 0 if logprob is None else 1, ())


def speak(*words: str) -> Script:
    """Every choice says these words, a token each; with a byte a prompt token."""

    def script(request: CompletionRequest) -> Iterable[Event]:
        num_prompt = 0
        for index in range(len(request.prompts)):
            text = prompt_text(request, index)
            tokens = tuple(text.encode())
            num_prompt += len(tokens)
            given = None
            if request.prompt_logprobs is not None:
                given = columns(
                    score(bytes([t]), -2.0 if i else None) for i, t in enumerate(tokens)
                )
            is_wanted = request.echo or request.logprobs is not None
            yield Prompted(index, tokens, 0, text if is_wanted else None, given)
        choices = range(len(request.prompts) * request.n)
        said = words if request.max_tokens is None else words[: request.max_tokens]
        for word in said:
            scores = (score(word.encode()),) if request.logprobs is not None else None
            yield from (Delta(choice, word, (word.encode()[0],), scores) for choice in choices)
        yield from (Finished(choice, "stop", "eos", len(said)) for choice in choices)
        usage = Usage(num_prompt, len(said) * len(choices), 0)
        yield Done(usage, request.sampling.seed or 0)

    return script


class ScriptedEngine:
    """Implements Engine. `requests` are those submitted; `closed` is set when one ends early."""

    info = INFO
    is_idle = True

    def __init__(self, script: Script):
        self.script = script
        self.requests: list[CompletionRequest] = []
        self.slot_actions: list[SlotAction] = []
        self.is_restarting = False
        self.started = threading.Event()
        self.closed = threading.Event()

    async def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        self.started.set()
        try:
            for step in self.script(request):
                if isinstance(step, Pause):
                    await step.go.wait()
                elif isinstance(step, Exception):
                    raise step
                elif sink is None or isinstance(step, Done | Failed):
                    yield step
                else:
                    sink((step,))
        except (asyncio.CancelledError, GeneratorExit):
            self.closed.set()
            raise

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        return list(text.encode())

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        return [bytes([token]) for token in tokens]

    async def lists(self) -> dict[str, bytes]:
        return {}

    async def act_on_slot(self, action: SlotAction) -> SlotResult:
        self.slot_actions.append(action)
        return SlotResult(num_tokens=3, num_bytes=200, seconds=0.25)

    async def stats(self) -> Stats:
        if self.is_restarting:
            raise Unavailable("restarting", retry_after_s=2.0)
        return Stats()

    async def close(self, drain_s: float = 0.0) -> None: ...


class OneModel:
    """Implements Models: one engine under some names. `gate` holds it back as loading would."""

    @property
    def names(self) -> list[str]:
        return ["tiny"]

    def load(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.is_up = True
        self.is_starting = False
        self.listeners = Listeners()
        self.gate: Callable[[], Awaitable[None]] | None = None
        self.kept: list[tuple[str, float | None]] = []
        self.was_kept = threading.Event()

    def resolve(self, name: str, exact: bool = False) -> str:
        if name == "unknown" or (exact and name not in ("", *self.names)):
            raise UnknownModel(
                f"model {name!r} not found; served: {', '.join(self.names)}", "model"
            )
        return "tiny"

    async def open(self, name: str) -> ScriptedEngine:
        self.resolve(name)
        if self.gate:
            await self.gate()
        return self.engine

    def loaded(self, name: str) -> ScriptedEngine | None:
        return self.engine if self.is_up else None

    def known(self, name: str) -> ModelInfo | None:
        return self.engine.info

    def is_loading(self, name: str) -> bool:
        return self.is_starting

    def listen(self, heard: Callable[[ModelChange | None], None]) -> Callable[[], None]:
        return self.listeners.add(heard)

    def keep(self, name: str, seconds: float | None) -> None:
        self.kept.append((name, seconds))
        self.is_up = seconds is None or seconds > 0
        self.was_kept.set()

    async def keep_in_all(self, name: str, seconds: float | None) -> None:
        self.keep(name, seconds)

    def expires_s(self, name: str) -> float | None:
        return self.kept[-1][1] if self.kept else None

    def adapters(self, name: str) -> list[ServedAdapter]:
        return []

    def settle_adapters(
        self, name: str, wanted: tuple[Adapter, ...] | None, param: str = "lora"
    ) -> tuple[Adapter, ...]:
        return AdapterList().settle(name, wanted, param)

    async def apply_adapters(self, name: str, wanted: tuple[Adapter, ...]) -> None:
        AdapterList().apply(wanted)

    async def close(self, drain_s: float = 0.0) -> None: ...
