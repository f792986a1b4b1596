"""What a program asks of an LLM: options as requests, and their events as answers."""

import asyncio
import itertools
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from segue.bounds import DRAWN_SEEDS, MAX_INT32
from segue.dialects.base import Stamp
from segue.dialects.openai import OPENAI
from segue.dialects.rendering.tally import Tally
from segue.errors import InvalidField
from segue.library.answers import Choice, Completion, Piece, Score
from segue.library.conversion import plain
from segue.library.engine_thread import EngineThread
from segue.library.options import Options, Text
from segue.types import CompletionRequest, Delta, Done, Prompted

T = TypeVar("T")
Answering = Coroutine[Any, Any, T]

_OPERATION = OPENAI.operations[0]
_numbers = itertools.count()


class Pieces(Protocol):
    """Where the parts of an answer go."""

    def put(self, piece: Piece) -> None: ...


Feed = Callable[[Pieces], Answering[None]]


class Asked(EngineThread):
    """Each method raises InvalidField at once if an option is wrong, and returns what the thread is to run."""

    def completion(self, prompt: Text, options: Options) -> Answering[Completion]:
        return self._one(_request(prompt, options))

    def completions(self, prompts: Sequence[Text], options: Options) -> Answering[list[Completion]]:
        requests = [_request(prompt, options) for prompt in _several("prompts", prompts)]
        return _together(map(self._one, requests))

    def infill(self, prefix: str, suffix: str, options: Options) -> Answering[Completion]:
        return self._one(_request(prefix, options, suffix=suffix))

    def stream(self, prompt: Text, options: Options) -> Feed:
        return partial(self._feed, _request(prompt, options))

    def score(self, text: Text, num_top: int) -> Answering[Score]:
        return self._score(_scoring(text, num_top))

    def scores(self, texts: Sequence[Text], num_top: int) -> Answering[list[Score]]:
        requests = [_scoring(text, num_top) for text in _several("texts", texts)]
        return _together(map(self._score, requests))

    # --- in the thread ---------------------------------------------------------------------------

    async def _one(self, request: CompletionRequest) -> Completion:
        tally, seed = Tally(request), 0
        async for event in self.events(request):
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

    async def _feed(self, request: CompletionRequest, pieces: Pieces) -> None:
        async for event in self.events(request):
            if isinstance(event, Delta):
                piece = Piece(event.choice, event.text, event.tokens, event.scores or ())
                pieces.put(piece)
            elif isinstance(event, Prompted) and event.text:
                for choice in range(request.n):  # with echo, every one begins with the prompt
                    pieces.put(Piece(choice, event.text, ()))

    async def _score(self, request: CompletionRequest) -> Score:
        score = Score(())
        async for event in self.events(request):
            if isinstance(event, Prompted):
                score = Score(tuple(event.scores or ()))
        return score


async def _together(works: Iterable[Answering[T]]) -> list[T]:
    """Every result. If one fails, the others are cancelled: nobody would get what they compute."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


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
