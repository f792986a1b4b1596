"""In place of vLLM's AsyncLLM where vLLM is not installed: it draws the likeliest tokens of the fake runner."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from segue.distributed.launch import Gauges, Launched
from segue.distributed.logits.own_draws import OwnDraws, unpack
from segue.distributed.request.mapping import DRAW_KEY
from segue.distributed.request.room import Room
from segue.engine.seam import Span
from segue.errors import EngineDied, EngineFault, SegueError
from segue.runners.fake import FakeLoader, FakeRunner, FakeVocab, default_capabilities
from segue.types import ModelInfo


class Dead(Exception):
    pass


@dataclass
class Entry:
    logprob: float
    rank: int | None


@dataclass
class Flat:
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ranks: list[int | None] = field(default_factory=list)


@dataclass
class Completion:
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, Entry]] | None = None
    finish_reason: str | None = None


class Collector:
    """As vLLM's, but that outputs which nobody has taken yet are not merged."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.put: Callable[[Any], None] = self._keep
        self._outputs: list[Any] = []

    def _keep(self, output: Any) -> None:
        self._outputs.append(output)

    def get_nowait(self) -> Any:
        kept = self._outputs.pop(0) if self._outputs else None
        if isinstance(kept, Exception):
            raise kept
        return kept

    def close(self) -> None: ...


@dataclass
class StandInOutput:
    prompt_logprobs: Flat | None
    outputs: list[Completion]
    num_cached_tokens: int | None = 0
    metrics: None = None

    @property
    def finished(self) -> bool:
        return self.outputs[0].finish_reason is not None


class StandIn:
    def __init__(
        self, script: bytes | None = None, stride: int = 1, context_length: int = 4096
    ) -> None:
        self.script = script
        self.stride = stride  # tokens an output holds at the most
        self.limits = default_capabilities(context_length=context_length)
        self.adapters: dict[str, Any] = {}
        self.room: Room | None = None
        self.can_score_asked = True
        self.loaded: list[Any] = []  # of these
        self.unfit: tuple[Any, ...] = ()  # of these, too
        # Tokens that the constraint forbids: vLLM draws one where bans leave nothing else.
        self.refused: frozenset[int] = frozenset()
        self._draws = OwnDraws(self.limits.vocab_size)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.asked: list[dict[str, Any]] = []
        self.errored = False
        self.is_shut_down = False
        self.step: asyncio.Event | None = None  # set once the step ends: calls are answered then
        self.num_calls = 0  # that asked whether it answers
        self.gauges = Gauges()
        self.pause: asyncio.Event | None = None  # waited for before every output but the first
        self.dies_of = ""  # a call that is never answered: the engine dies
        self.gives_up: Callable[[dict[str, Any]], bool] = lambda params: False  # without a token

    def launched(self) -> Launched:
        return Launched(
            llm=self,
            vocab=FakeVocab(),
            capabilities=replace(self.limits, adapters=tuple(self.adapters)),
            info=_info(),
            gauges=self.gauges,
            parameters=lambda values, grammar: {**values, "grammar": grammar},
            prompt=lambda tokens, salt: list(tokens),
            error=_error,
            give_up=self._give_up,
            adapters=self.adapters,
            room=self.room,
            can_score_asked=self.can_score_asked,
            can_draw=True,
            can_cut=True,
        )

    @property
    def open(self) -> set[str]:
        return set(self._tasks)

    async def add_request(
        self,
        request_id: str,
        prompt: Sequence[int],
        params: dict[str, Any],
        *,
        lora_request: Any = None,
        priority: int = 0,
    ) -> "Collector":
        assert request_id not in self._tasks
        self.asked.append({**params, "lora_request": lora_request, "priority": priority})
        collector = Collector(request_id)
        self._tasks[request_id] = asyncio.create_task(self._run(collector, list(prompt), params))
        await asyncio.sleep(0)  # as vLLM, which may have outputs before this returns
        return collector

    async def _run(self, collector: "Collector", tokens: list[int], params: dict[str, Any]) -> None:
        try:
            async for output in self._generate(tokens, params):
                if output.finished:
                    self._tasks.pop(collector.request_id, None)
                collector.put(output)
        except Exception as error:
            self._tasks.pop(collector.request_id, None)
            collector.put(error)

    async def get_supported_tasks(self) -> tuple[str, ...]:
        await self._die_of("get_supported_tasks")
        return ("generate",)

    async def is_paused(self) -> bool:
        self.num_calls += 1
        if self.step is not None:
            await self.step.wait()
        return False

    def _give_up(self) -> None:
        self.errored = True

    async def _die_of(self, call: str) -> None:
        if self.dies_of == call:
            self.errored = True
            await asyncio.Event().wait()

    async def add_lora(self, lora_request: Any) -> bool:
        await self._die_of("add_lora")
        self.loaded.append(lora_request)
        if lora_request in self.unfit:
            raise ValueError("rank 32 is greater than max_lora_rank 16")
        return True

    async def abort(self, request_id: str, internal: bool = False) -> None:
        assert internal
        task = self._tasks.pop(request_id, None)
        if task is not None:
            task.cancel()

    def shutdown(self, timeout: float | None = None) -> None:
        self.is_shut_down = True

    async def _generate(
        self, tokens: list[int], params: dict[str, Any]
    ) -> AsyncGenerator[StandInOutput, None]:
        runner = FakeRunner(self.limits, self.script)
        logits = runner.decode([Span(0, tokens, 0, len(tokens))])
        rows = _logprobs(logits)
        scored = _prompt(rows, tokens, params["prompt_logprobs"])
        completion, num_drawn = Completion(), 0
        if self.gives_up(params):
            yield StandInOutput(None, [Completion(logprobs=[], finish_reason="abort")])
            return
        while completion.finish_reason is None:
            if num_drawn and self.pause is not None:
                await self.pause.wait()
            await asyncio.sleep(0)
            if self.errored:
                raise Dead
            num_top, asked = params.get("logprobs"), params.get("logprob_token_ids")
            assert num_top is None or asked is None
            completion = Completion(logprobs=None if num_top is asked is None else [])
            while len(completion.token_ids) < self.stride and completion.finish_reason is None:
                token = self._draw(logits[-1], params, num_drawn)
                _add(completion, rows[-1], token, num_top, asked)
                num_drawn += 1
                if token in self.refused:
                    completion.finish_reason = "error"
                elif token in params.get("stop_token_ids", ()):
                    completion.finish_reason = "stop"
                elif num_drawn == params["max_tokens"]:
                    completion.finish_reason = "length"
                tokens.append(token)
                logits = runner.decode([Span(0, [token], len(tokens) - 1, 1)])
                rows = _logprobs(logits)
            yield StandInOutput(scored, [completion])
            scored = None

    def _draw(self, row: Any, params: dict[str, Any], position: int) -> int:
        biased = row.copy()
        for token, bias in (params.get("logit_bias") or {}).items():
            biased[token] += bias
        packed = (params.get("extra_args") or {}).get(DRAW_KEY)
        if packed is not None:  # as draw_processors.py
            wanted = [(0, unpack(packed), position)]
            return self._draws.tokens(wanted, biased[None])[0]
        return int(biased.argmax())


def _logprobs(logits: Any) -> Any:
    logits = logits.astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def _entries(row: Any, token: int, num_top: int) -> list[tuple[int, float, int]]:
    """The token itself first, as vLLM has it."""
    assert num_top <= len(row), "vLLM's engine dies of it"
    best = np.argsort(-row, kind="stable")[:num_top]
    own = (token, float(row[token]), 1 + int((row > row[token]).sum()))
    return [own, *((int(i), float(row[i]), rank) for rank, i in enumerate(best, 1))]


def _prompt(rows: Any, tokens: list[int], num_top: int | None) -> Flat | None:
    if num_top is None:
        return None
    flat = Flat()
    for row, token in zip(rows, tokens[1:], strict=False):
        for identity, logprob, rank in _entries(row, token, num_top):
            flat.token_ids.append(identity)
            flat.logprobs.append(logprob)
            flat.ranks.append(rank)
    return flat


def _add(
    completion: Completion, row: Any, token: int, num_top: int | None, asked: list[int] | None
) -> None:
    completion.token_ids.append(token)
    if completion.logprobs is not None:
        listed = _entries(row, token, num_top or 0)
        # As vLLM, whose ranks of these are their places in the list.
        listed += [(each, float(row[each]), rank) for rank, each in enumerate(asked or (), 1)]
        completion.logprobs.append({i: Entry(logprob, rank) for i, logprob, rank in listed})


def _info() -> ModelInfo:
    return FakeLoader()().info


def _error(error: Exception) -> SegueError:
    if isinstance(error, SegueError):
        return error
    return EngineDied("it died") if isinstance(error, Dead) else EngineFault("it failed")
