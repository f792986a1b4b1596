"""An Engine over vLLM's AsyncLLM, which runs in its own processes. If they die or hang, they are started again."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec

from segue.distributed.answers import answered
from segue.distributed.hang_watch import HangWatch
from segue.distributed.invariance import VARIABLE, is_claimed, is_invariant
from segue.distributed.launch import Launched
from segue.distributed.request.events import Output
from segue.distributed.request.follow import follow
from segue.distributed.request.prepare import VllmRequest, VllmRequests, is_quick
from segue.engine.process.mailbox import Mailbox
from segue.engine.process.supervisor import next_pause
from segue.engine.request.sequence import Sequence as Candidate
from segue.engine.seam import Sink, failed_of
from segue.engine.tokens import check_ids
from segue.errors import (
    EngineDied,
    EngineFault,
    ModelUnavailable,
    SegueError,
    SetupError,
    Unavailable,
    Unsupported,
)
from segue.types import (
    CompletionRequest,
    Done,
    Event,
    Failed,
    ModelInfo,
    SlotAction,
    SlotResult,
    Stats,
)

log = logging.getLogger("segue.vllm")

_LOOK_S = 0.5  # how often to check whether vLLM has died, or hangs
_RETRY_S = 10.0  # loading takes long


class _Open(Mailbox):
    """One open request, and the tasks that produce its events."""

    def __init__(self, sink: Sink | None) -> None:
        super().__init__(sink)
        self.tasks: list[asyncio.Task[None]] = []

    def fail(self, error: SegueError) -> None:
        self.put([failed_of(error)])

    async def stop(self) -> None:
        """Cancel its tasks; vLLM's work for the request ends with them."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class VllmEngine:
    def __init__(
        self, launch: Callable[[], Awaitable[Launched]], step_timeout_s: float | None = None
    ) -> None:
        """`step_timeout_s`: a step that takes longer hangs; None: as long as HangWatch waits by itself."""
        self._launch = launch
        self._step_timeout_s = step_timeout_s
        self._launched: Launched | None = None
        self._requests: VllmRequests | None = None  # None while vLLM is not up
        self._watch: HangWatch | None = None  # over the last launch
        self._supervision: asyncio.Task[None] | None = None
        self._open: set[_Open] = set()
        self._nothing_open = asyncio.Event()
        self._nothing_open.set()
        self._is_closing = False
        self._totals = Stats()

    async def start(self) -> None:
        """Start vLLM and wait until the model is loaded. Raises the error of a failed load."""
        await self._take(await self._launch())
        self._supervision = asyncio.create_task(self._supervise())

    @property
    def info(self) -> ModelInfo:
        if self._launched is None:
            raise Unavailable("the model is still loading", retry_after_s=_RETRY_S)
        return self._launched.info

    @property
    def is_idle(self) -> bool:
        return not self._open

    # --- Engine -----------------------------------------------------------------------------------

    async def submit(
        self, request: CompletionRequest, sink: Sink | None = None
    ) -> AsyncGenerator[Event, None]:
        requests = self._ready()
        box = _Open(sink)
        self._open.add(box)
        self._nothing_open.clear()
        is_over = False
        try:
            box.tasks.append(asyncio.create_task(self._serve(requests, request, box)))
            while not is_over:
                for event in await box.take():
                    is_over = isinstance(event, Done | Failed)
                    if is_over:
                        self._count(event)
                        await self._forget(box)
                    yield event
        finally:
            if not is_over:
                self._add(cancelled=1)
            await self._forget(box)

    async def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        vocab = self._ready().launched.vocab
        return await asyncio.to_thread(vocab.tokenize, text, add_special, parse_special)

    async def pieces(self, tokens: Sequence[int]) -> list[bytes]:
        vocab = self._ready().launched.vocab
        check_ids(tokens, vocab.size, "tokens")
        return [vocab.piece(token) for token in tokens]

    async def lists(self) -> dict[str, bytes]:
        return {}

    async def act_on_slot(self, action: SlotAction) -> SlotResult:
        raise Unsupported(
            "Slots can be neither saved nor restored here: with --engine vllm, vLLM holds what prompts were computed to"
        )

    async def stats(self) -> Stats:
        launched = self._ready().launched
        now, totals, limits = launched.gauges, self._totals, launched.capabilities
        return Stats(
            running=now.running,
            waiting=now.waiting,
            slots_used=now.running,
            slots_total=limits.num_slots * now.num_engines,
            cells_used=round(now.kv_usage * limits.num_cells),
            cells_running=round(now.kv_usage * limits.num_cells),
            cells_total=limits.num_cells,
            steps=now.steps,
            preemptions=now.preemptions,
            prompt_tokens=totals.prompt_tokens,
            cached_tokens=totals.cached_tokens,
            prefilled_tokens=totals.prompt_tokens - totals.cached_tokens,
            completion_tokens=totals.completion_tokens,
            finished=totals.finished,
            cancelled=totals.cancelled,
            failed=totals.failed,
            restarts=totals.restarts,
        )

    async def close(self, drain_s: float = 0.0) -> None:
        """End vLLM, after at most `drain_s` for open requests. A second call may shorten the drain."""
        self._is_closing = True
        if drain_s > 0 and self._requests is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nothing_open.wait(), drain_s)
        for box in list(self._open):
            box.fail(Unavailable("the server is shutting down"))
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])
        if self._watch is not None:
            self._watch.stop()
        if self._requests is not None:
            requests, self._requests = self._requests, None
            await asyncio.to_thread(requests.launched.llm.shutdown)

    # --- one request ------------------------------------------------------------------------------

    async def _serve(self, requests: VllmRequests, request: CompletionRequest, box: _Open) -> None:
        try:
            if request.constraint is not None:
                await requests.compile(request.constraint)
            if is_quick(request):
                prepared = requests.prepare(request)
            else:
                prepared = await asyncio.to_thread(requests.prepare, request)
            async with asyncio.TaskGroup() as group:
                has_output = [asyncio.Event() for _ in request.prompts]

                def start(candidates: list[Candidate]) -> None:
                    for candidate in candidates:
                        is_read = has_output[candidate.prompt_index]
                        following = self._follow(requests, prepared, candidate, is_read, box, start)
                        group.create_task(following)

                start(prepared.job.sequences)
        except* Exception as errors:
            self._fail(requests, box, _first(errors))

    async def _follow(
        self,
        requests: VllmRequests,
        prepared: VllmRequest,
        candidate: Candidate,
        is_read: asyncio.Event,
        box: _Open,
        start: Callable[[list[Candidate]], None],
    ) -> None:
        """Run one candidate, and start what its end calls for.

        Other candidates of a prompt wait until the leader's first output (`is_read`), to share its prefix.
        """
        if candidate.leader is not None:
            await is_read.wait()

        def take(output: Output) -> bool:
            if events := prepared.events.take(candidate, output, time.monotonic()):
                box.put(events)
            is_read.set()
            if candidate.cause is None:
                return False
            start(prepared.job.take_more())
            return True

        await follow(requests.launched.llm, requests.ask(prepared, candidate), take)

    def _fail(self, requests: VllmRequests, box: _Open, error: Exception) -> None:
        known = requests.launched.error(error)
        if known is not error and isinstance(known, EngineFault):
            log.error("a request failed", exc_info=error)
        if isinstance(known, EngineDied):
            known.retry_after_s = _RETRY_S
        box.fail(known)

    async def _forget(self, box: _Open) -> None:
        self._open.discard(box)
        if not self._open:
            self._nothing_open.set()
        await box.stop()

    def _count(self, event: Event) -> None:
        if isinstance(event, Done):
            usage = event.usage
            self._add(
                finished=1,
                prompt_tokens=usage.prompt_tokens,
                cached_tokens=usage.cached_tokens,
                completion_tokens=usage.completion_tokens,
            )
        else:
            self._add(failed=1)

    def _add(self, **more: int) -> None:
        old = self._totals
        self._totals = Stats(
            **{
                name: getattr(old, name) + more.get(name, 0)
                for name in (
                    "prompt_tokens",
                    "cached_tokens",
                    "completion_tokens",
                    "finished",
                    "cancelled",
                    "failed",
                    "restarts",
                )
            }
        )

    # --- start and restart ------------------------------------------------------------------------

    def _ready(self) -> VllmRequests:
        if self._is_closing:
            raise Unavailable("the server is shutting down", retry_after_s=1.0)
        if self._requests is None or self._requests.launched.llm.errored:
            raise Unavailable("vLLM's engine is being started", retry_after_s=_RETRY_S)
        return self._requests

    async def _take(self, launched: Launched) -> None:
        try:
            await _ask_first(launched)
            await _load_adapters(launched)
            if is_claimed():
                launched = await _tried(launched)
            requests = await asyncio.to_thread(VllmRequests, launched)  # reads the whole vocabulary
        except BaseException:  # it is not served, and must not keep its memory
            await asyncio.to_thread(launched.llm.shutdown)
            raise
        self._launched, self._requests = launched, requests
        self._watch = HangWatch(launched, self._step_timeout_s)

    async def _supervise(self) -> None:
        pause_s, begun = 0.0, time.monotonic()
        while True:
            await asyncio.sleep(_LOOK_S)
            requests, watch = self._requests, self._watch
            if requests is not None and watch is not None:
                watch.look(_LOOK_S)
                if not requests.launched.llm.errored:
                    continue
                watch.stop()
                await self._end_open_requests(requests)
            pause_s = next_pause(pause_s, time.monotonic() - begun, requests is not None)
            await asyncio.sleep(pause_s)
            begun = time.monotonic()
            self._add(restarts=1)
            try:
                await self._take(await self._launched_again())
            except SetupError as error:
                log.error("vLLM could not be started again: %s", error.message)
            except Exception:
                log.exception("vLLM could not be started again")

    async def _end_open_requests(self, requests: VllmRequests) -> None:
        log.error("vLLM's engine died; it is being started again")
        self._requests = None
        for box in list(self._open):
            self._fail(requests, box, EngineDied("vLLM's engine ended unexpectedly"))
        try:
            await asyncio.to_thread(requests.launched.llm.shutdown)
        except Exception:  # what is left of it must not prevent another start
            log.exception("vLLM's engine died, and could not be shut down")

    async def _launched_again(self) -> Launched:
        """Launch vLLM. If cancelled meanwhile, the engine is shut down as soon as it is up."""
        launching = asyncio.ensure_future(self._launch())
        try:
            return await asyncio.shield(launching)
        except asyncio.CancelledError:
            launching.add_done_callback(_shut_down)
            raise


async def _ask_first(launched: Launched) -> None:
    """Ask the engine what vLLM would ask it with the first request, which waits for ever if the engine dies meanwhile.

    Only from the first call on does vLLM notice an engine that says of itself that it has failed. Raises
    ModelUnavailable.
    """
    try:
        await answered(launched.llm, launched.llm.get_supported_tasks())
    except Exception as error:
        raise ModelUnavailable(f"vLLM's engine was started and does not answer: {error}") from error


async def _load_adapters(launched: Launched) -> None:
    """As `vllm serve` does: vLLM's engine dies of one that it cannot load with a request. Raises ModelUnavailable."""
    for name, adapter in launched.adapters.items():
        try:
            await answered(launched.llm, launched.llm.add_lora(adapter))
        except Exception as error:
            raise ModelUnavailable(f"vLLM cannot load the adapter {name}: {error}") from error


async def _tried(launched: Launched) -> Launched:
    """The same, with what a trial of batch invariance found. Raises ModelUnavailable if vLLM fails on it."""
    try:
        holds = await is_invariant(launched)
    except Exception as error:
        raise ModelUnavailable(
            f"vLLM cannot compute in its batch-invariant mode here: {launched.error(error).message}. Its kernels "
            f"need a GPU that has them; unset {VARIABLE} to serve without."
        ) from error
    log.info("batch invariance: %s", "holds" if holds else "claimed, but does not hold")
    info = msgspec.structs.replace(launched.info, deterministic=holds, seeds_requests=holds)
    return replace(launched, info=info)


def _shut_down(launching: "asyncio.Future[Launched]") -> None:
    if not launching.cancelled() and launching.exception() is None:
        launching.result().llm.shutdown()


def _first(error: Exception) -> Exception:
    """The first single exception in a group."""
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
