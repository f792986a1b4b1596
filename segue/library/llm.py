"""`LLM`: a model in a worker process, asked from Python, with or without an event loop.

    from segue import LLM

    with LLM("model.gguf") as llm:
        print(llm.complete("The capital of France is", max_tokens=8, temperature=0))

Options have the names of the server's root dialect and are read by the same table, so a request gives here what it
gives there, to the byte.
"""

import asyncio
import atexit
import os
import queue
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from segue import config
from segue.assembly.ahead import start_ahead
from segue.bounds import MAX_INT32
from segue.errors import InvalidField
from segue.library.answers import Completion, Piece, Score
from segue.library.conversion import plain
from segue.library.options import Options, Text
from segue.library.settings import checked

if TYPE_CHECKING:
    from segue.library.asked import Feed
    from segue.types import ModelInfo

# Methods of other libraries, and what would be right here.
_METHODS_ELSEWHERE = {
    "generate": "use complete, or complete_batch for several prompts",
    "create_completion": "use complete, or stream",
    **dict.fromkeys(("chat", "create_chat_completion"), "there is no chat here: completions only"),
    **dict.fromkeys(("embed", "create_embedding"), "there are no embeddings here"),
}


class LLM:
    """A loaded model. Its process ends with `close`, with the end of `with`, or when the object is collected."""

    def __init__(self, model: str | PathLike[str] = "default", **settings: Any) -> None:
        """`model` as for `segue serve`; settings are its flags that are about the model: threads=4,
        context_length=4096, runner="llama".

        Raises SetupError where it cannot be loaded, and for other settings.
        """
        flags = {"models": (os.fsdecode(model),), **checked(settings)}
        loaded = config.load(flags)
        worker = start_ahead(loaded)
        from segue.library.asked import (
            Asked,  # long to import, which the worker's process does beside it
        )

        self._thread = Asked(loaded, worker)
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
    def info(self) -> "ModelInfo":
        return self._thread.engine.info

    # --- without an event loop -------------------------------------------------------------------

    def complete(self, prompt: Text, **options: Unpack[Options]) -> Completion:
        """The answer to one prompt. Raises InvalidField if an option is wrong."""
        return self._thread.result(self._thread.completion(prompt, options))

    def complete_batch(
        self, prompts: Sequence[Text], **options: Unpack[Options]
    ) -> list[Completion]:
        """One answer per prompt, computed together. Each is the same as for the prompt alone."""
        return self._thread.result(self._thread.completions(prompts, options))

    def stream(self, prompt: Text, **options: Unpack[Options]) -> Iterator[Piece]:
        """The answer while it is generated. Raises InvalidField at once if an option is wrong. The request begins with
        the first piece that is asked for; closing the iterator cancels it."""
        return self._pieces(self._thread.stream(prompt, options))

    def _pieces(self, feed: "Feed") -> Iterator[Piece]:
        pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        work = self._thread.run(feed(pieces))
        work.add_done_callback(lambda _: pieces.put(None))
        try:
            while (piece := pieces.get()) is not None:
                yield piece
            work.result()
        finally:
            work.cancel()

    def infill(self, prefix: str, suffix: str, **options: Unpack[Options]) -> Completion:
        """The text between prefix and suffix, by the model's FIM tokens or by ranking."""
        return self._thread.result(self._thread.infill(prefix, suffix, options))

    def score(self, text: Text, num_top: int = 0) -> Score:
        """The log-probability of each token of the text, and of so many alternatives."""
        return self._thread.result(self._thread.score(text, num_top))

    def score_batch(self, texts: Sequence[Text], num_top: int = 0) -> list[Score]:
        return self._thread.result(self._thread.scores(texts, num_top))

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
        work = self._thread.run(self._thread.completion(prompt, options))
        return await asyncio.wrap_future(work)

    async def acomplete_batch(
        self, prompts: Sequence[Text], **options: Unpack[Options]
    ) -> list[Completion]:
        work = self._thread.run(self._thread.completions(prompts, options))
        return await asyncio.wrap_future(work)

    def astream(self, prompt: Text, **options: Unpack[Options]) -> AsyncIterator[Piece]:
        """As `stream`, for `async for`."""
        return self._apieces(self._thread.stream(prompt, options))

    async def _apieces(self, feed: "Feed") -> AsyncIterator[Piece]:
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        relay = _Relay(loop, pieces)
        work = self._thread.run(feed(relay))
        work.add_done_callback(lambda _: relay.put(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await asyncio.wrap_future(work)
        finally:
            work.cancel()

    async def ainfill(self, prefix: str, suffix: str, **options: Unpack[Options]) -> Completion:
        work = self._thread.run(self._thread.infill(prefix, suffix, options))
        return await asyncio.wrap_future(work)

    async def ascore(self, text: Text, num_top: int = 0) -> Score:
        work = self._thread.run(self._thread.score(text, num_top))
        return await asyncio.wrap_future(work)


class _Relay:
    """Puts items into an asyncio queue from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces: "asyncio.Queue[Piece | None]"):
        self._loop = loop
        self._pieces = pieces

    def put(self, piece: Piece | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
