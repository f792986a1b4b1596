"""`LLM`: a model in a worker process, asked from Python, with or without an event loop.

    from segue import LLM

    with LLM("model.gguf") as llm:
        print(llm.complete("The capital of France is", max_tokens=8, temperature=0))

Options have the names of the server's root dialect and are read by the same table, so a request gives here what it
gives there, to the byte.
"""

import asyncio
import atexit
import itertools
import os
import queue
import secrets
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Sequence
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

import msgspec

from segue import config
from segue.bounds import DRAWN_SEEDS, MAX_INT32
from segue.dialects.base import Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.rendering.tally import Tally
from segue.errors import InvalidField
from segue.library.answers import Choice, Completion, Piece, Score
from segue.library.engine_thread import EngineThread
from segue.library.options import Options
from segue.library.plain import plain
from segue.library.settings import checked
from segue.types import CompletionRequest, Delta, Done, ModelInfo, Prompted

Text = str | Sequence[int]
"""A prompt: text, or token ids that are taken as they are."""

T = TypeVar("T")

_OPERATION = OPENAI.operations[0]
# Methods of other libraries, and what would be right here.
_METHODS_ELSEWHERE = {
    "generate": "use complete, or complete_batch for several prompts",
    "create_completion": "use complete, or stream",
    **dict.fromkeys(("chat", "create_chat_completion"), "there is no chat here: completions only"),
    **dict.fromkeys(("embed", "create_embedding"), "there are no embeddings here"),
}
_numbers = itertools.count()


class LLM:
    """A loaded model. Its process ends with `close`, with the end of `with`, or when the object is collected."""

    def __init__(self, model: str | PathLike[str] = "default", **settings: Any) -> None:
        """`model` as for `segue serve`; settings are its flags that are about the model: threads=4,
        context_length=4096, runner="llama".

        Raises SetupError where it cannot be loaded, and for other settings.
        """
        flags = {"models": (os.fsdecode(model),), **checked(settings)}
        self._thread = EngineThread(config.load(flags))
        self.close = weakref.finalize(self, self._thread.close)
        # Registered now, so that it runs before multiprocessing kills the worker, which would look like a crash.
        atexit.register(self.close)

    if not TYPE_CHECKING:  # a checker shall not believe that there is every attribute

        def __getattr__(self, name: str) -> NoReturn:
            hint = _METHODS_ELSEWHERE.get(name)
            more = f"; {hint}" if hint else ""
            raise AttributeError(f"an LLM has no {name}{more}", name=name, obj=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        return self._thread.engine.info

    # --- without an event loop -------------------------------------------------------------------

    def complete(self, prompt: Text, **options: Unpack[Options]) -> Completion:
        """The answer to one prompt. Raises InvalidField if an option is wrong."""
        return self._thread.result(self._one(_request(prompt, options)))

    def complete_batch(
        self, prompts: Sequence[Text], **options: Unpack[Options]
    ) -> list[Completion]:
        """One answer per prompt, computed together. Each is the same as for the prompt alone."""
        return self._thread.result(self._all(_requests(prompts, options)))

    def stream(self, prompt: Text, **options: Unpack[Options]) -> Iterator[Piece]:
        """The answer while it is generated. Raises InvalidField at once if an option is wrong. The request begins with
        the first piece that is asked for; closing the iterator cancels it."""
        return self._pieces(_request(prompt, options))

    def _pieces(self, request: CompletionRequest) -> Iterator[Piece]:
        pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        work = self._thread.run(self._feed(request, pieces))
        work.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
            work.result()
        finally:
            work.cancel()

    def infill(self, prefix: str, suffix: str, **options: Unpack[Options]) -> Completion:
        """The text between prefix and suffix, by the model's FIM tokens or by ranking."""
        return self._thread.result(self._one(_gap(prefix, suffix, options)))

    def score(self, text: Text, num_top: int = 0) -> Score:
        """The log-probability of each token of the text, and of so many alternatives."""
        return self._thread.result(self._score(_scoring(text, num_top)))

    def score_batch(self, texts: Sequence[Text], num_top: int = 0) -> list[Score]:
        requests = [_scoring(text, num_top) for text in _several("texts", texts)]
        return self._thread.result(_together(map(self._score, requests)))

    def tokenize(self, text: str, *, add_special: bool = True) -> list[int]:
        if not isinstance(text, str):
            raise TypeError(f"tokenize takes a text, not {text!r:.80}")
        return self._thread.result(self._thread.engine.tokenize(text, add_special, True))

    def detokenize(self, tokens: Sequence[int]) -> str:
        ids = plain("tokens", tokens)
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise TypeError("detokenize takes token ids: a sequence of integers")
        if wrong := [token for token in ids if not 0 <= token <= MAX_INT32]:
            raise InvalidField(f"tokens must be from 0 to {MAX_INT32}, not {wrong[0]}", "tokens")
        pieces = self._thread.result(self._thread.engine.pieces(ids))
        return b"".join(pieces).decode(errors="replace")

    # --- with one --------------------------------------------------------------------------------

    async def acomplete(self, prompt: Text, **options: Unpack[Options]) -> Completion:
        """As `complete`; cancelling the task cancels the request."""
        work = self._thread.run(self._one(_request(prompt, options)))
        return await asyncio.wrap_future(work)

    async def acomplete_batch(
        self, prompts: Sequence[Text], **options: Unpack[Options]
    ) -> list[Completion]:
        work = self._thread.run(self._all(_requests(prompts, options)))
        return await asyncio.wrap_future(work)

    def astream(self, prompt: Text, **options: Unpack[Options]) -> AsyncIterator[Piece]:
        """As `stream`, for `async for`."""
        return self._apieces(_request(prompt, options))

    async def _apieces(self, request: CompletionRequest) -> AsyncIterator[Piece]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        relay = _Relay(loop, pieces)
        work = self._thread.run(self._feed(request, relay))
        work.add_done_callback(lambda _: relay.put(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await asyncio.wrap_future(work)
        finally:
            work.cancel()

    async def ainfill(self, prefix: str, suffix: str, **options: Unpack[Options]) -> Completion:
        work = self._thread.run(self._one(_gap(prefix, suffix, options)))
        return await asyncio.wrap_future(work)

    async def ascore(self, text: Text, num_top: int = 0) -> Score:
        work = self._thread.run(self._score(_scoring(text, num_top)))
        return await asyncio.wrap_future(work)

    # --- in the engine's thread ------------------------------------------------------------------

    async def _one(self, request: CompletionRequest) -> Completion:
        tally, seed = Tally(request), 0
        async for event in self._thread.events(request):
            tally.push(event)
            if isinstance(event, Done):
                seed = event.seed
        return Completion(
            choices=tuple(
                Choice(
                    (tally.prompts[0].text or "") * request.echo + choice.text,
                    tuple(choice.tokens),
                    choice.finished.reason,
                    choice.finished.cause,
                    tuple(choice.scores),
                )
                for choice in tally.choices
            ),
            usage=tally.usage,
            seed=seed,
        )

    async def _all(self, requests: list[CompletionRequest]) -> list[Completion]:
        return await _together(map(self._one, requests))

    async def _feed(
        self, request: CompletionRequest, pieces: "queue.SimpleQueue[Piece | None] | _Relay"
    ) -> None:
        async for event in self._thread.events(request):
            if isinstance(event, Delta):
                piece = Piece(event.choice, event.text, event.tokens, event.scores or ())
                pieces.put(piece)
            elif isinstance(event, Prompted) and event.text:
                for choice in range(request.n):  # with echo, every one begins with the prompt
                    pieces.put(Piece(choice, event.text, ()))

    async def _score(self, request: CompletionRequest) -> Score:
        score = Score(())
        async for event in self._thread.events(request):
            if isinstance(event, Prompted):
                score = Score(tuple(event.scores or ()))
        return score


async def _together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Every result. If one fails, the others are cancelled: nobody would get what they compute."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


class _Relay:
    """Puts items into an asyncio queue from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces: "asyncio.Queue[Piece | None]"):
        self._loop = loop
        self._pieces = pieces

    def put(self, piece: Piece | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)


# --- requests, read by the table of the root dialect ---------------------------------------------


# Fields that the table knows, and that mean nothing here.
_ELSEWHERE = {
    "model": "an LLM has one model",
    "stream": "the method stream gives an answer while it is generated",
}


def _request(prompt: Text, options: Options, **more: Any) -> CompletionRequest:
    for name in options.keys() & _ELSEWHERE:
        raise TypeError(f"there is no option {name}: {_ELSEWHERE[name]}")
    given: dict[str, Any] = {"prompt": prompt, **options, **more}
    body = {name: plain(name, value) for name, value in given.items()}
    number = f"llm-{next(_numbers)}"
    seed = secrets.randbelow(DRAWN_SEEDS)
    stamp = Stamp(request_id=number, public_id=number, created=0, seed=seed, fingerprint="")
    call = _OPERATION.parse(body, stamp)
    if call.ignored:
        known, name = Options.__annotations__, call.ignored[0]
        near = [] if name in known else get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ", or it has no effect beside the others"
        raise TypeError(f"there is no option {', '.join(call.ignored)}{hint}")
    if len(call.request.prompts) > 1:
        raise InvalidField("prompt must be one prompt: complete_batch takes several", "prompt")
    return msgspec.structs.replace(call.request, model="")


def _requests(prompts: Sequence[Text], options: Options) -> list[CompletionRequest]:
    return [_request(prompt, options) for prompt in _several("prompts", prompts)]


def _several(name: str, texts: Sequence[Text]) -> Sequence[Text]:
    if isinstance(texts, str):  # it is a sequence too: of its characters
        raise InvalidField(f"{name} must be a list of texts, not one text", name)
    return texts


def _scoring(text: Text, num_top: int) -> CompletionRequest:
    top = plain("num_top", num_top)
    if type(top) is not int:
        raise InvalidField(f"num_top must be a whole number, not {top!r:.80}", "num_top")
    if top < 0 or top > MAX_INT32:
        raise InvalidField(f"num_top must be 0 or more, not {top}", "num_top")
    return CompletionRequest(
        request_id=f"llm-{next(_numbers)}",
        model="",
        prompts=_request(text, {}).prompts,
        max_tokens=0,
        prompt_logprobs=top,
    )


def _gap(prefix: str, suffix: str, options: Options) -> CompletionRequest:
    return _request(prefix, options, suffix=suffix)
