"""The endpoint of all completions, streamed or not."""

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from segue.bounds import DRAWN_SEEDS, LARGE_ANSWER_CHARS, LARGE_ANSWER_ITEMS, MAX_ANSWER_SCORES
from segue.dialects.base import (
    INTERVAL,
    PING,
    TOLD,
    Call,
    ErrorShape,
    Operation,
    Renderer,
    Reply,
    Stamp,
)
from segue.dialects.rendering.tally import Tally
from segue.engine.seam import Models, Sink, error_of
from segue.errors import (
    InvalidField,
    SegueError,
)
from segue.fingerprint import unpromised
from segue.server.admission.policy import Policy
from segue.server.admission.request_caps import candidates
from segue.server.admission.request_record import RequestRecord
from segue.server.coalescing import Coalescer
from segue.server.feed import FOREVER_S, Feed, num_repeated, num_scores
from segue.server.field_names import as_sent
from segue.server.framing import (
    FRAMES,
    STREAM_HEADERS,
    Frame,
    Header,
    error_headers,
    reply_messages,
)
from segue.server.json_body import beside_the_loop, decode, is_large, read_body
from segue.server.kept_streams import KeptStream, KeptStreams
from segue.server.report_headers import (
    found,
    ignored_header,
    infill_header,
    load_report,
    may_be_ignored,
    report,
)
from segue.server.service import fingerprint_of, open_engine, own_salt, settled_adapters
from segue.server.stream import KEEP_ALIVE, Stream
from segue.server.transport.chunk_writer import ChunkWriter, chunk_writer
from segue.types import (
    CompletionRequest,
    Done,
    Event,
    Failed,
    Infill,
    Prompted,
    Usage,
)

HEADERS_AFTER_S = 2.0  # a stream's status is held back this long, so that it can still be an error

_NUMBER = re.compile(rb"[+-]?\d{1,20}")
_LOAD_FORMAT = b"endpoint-load-metrics-format"
_TOO_MANY_SCORES = (
    f"logprobs: the answer would hold more than {MAX_ANSWER_SCORES} scores; ask for fewer tokens or "
    "alternatives, or have it streamed"
)


@dataclass(frozen=True)
class Completions:
    """A raw ASGI application for one operation of one dialect."""

    operation: Operation
    error: ErrorShape
    models: Models
    policy: Policy
    streams: KeptStreams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = RequestRecord.of(scope)
        headers: list[Header] = []
        call: Call | None = None
        try:
            call = await self._read(receive, record)
            headers += report(call)
            if (kept := self._kept(call, record, headers)) is None:
                writer = chunk_writer(scope)
                await self._respond(call, record, headers, writer, receive, send)
            else:
                answer = partial(self._respond, call, record, headers, None)
                await self.streams.carry(record.tenant, kept, answer, send)
        except SegueError as refusal:
            error = refusal if call is None else as_sent(refusal, call)
            record.refuse(error)
            await _send(send, self.error(error), [*headers, *error_headers(error)])

    def _kept(self, call: Call, record: RequestRecord, headers: list[Header]) -> KeptStream | None:
        """What holds a stream that goes on without its client, if that is asked for and can be."""
        header = self.operation.name_header
        name = dict(record.headers).get(header, b"").decode(errors="replace")
        if not name:
            return None
        kept = self.streams.open(record.tenant, name) if call.stream else None
        if kept is None:
            headers += ignored_header([header.decode()])
        return kept

    async def _respond(
        self,
        call: Call,
        record: RequestRecord,
        headers: list[Header],
        writer: ChunkWriter | None,
        receive: Receive,
        send: Send,
    ) -> None:
        try:
            async with Feed(
                lambda sink: self._submit(call, record, sink),
                receive,
                record.push,
                self.policy.request_timeout_s,
                self._coalescer(call),
            ) as feed:
                if call.stream:
                    await self._stream(call, feed, send, headers, writer)
                else:
                    await self._answer(call, feed, send, headers, record)
        finally:
            # Without a prompt the keep-alive was set before the answer; setting it twice would be a race.
            if call.request.prompts:
                self._keep(call)  # counts from now

    async def _read(self, receive: Receive, record: RequestRecord) -> Call:
        body, stamp = await read_body(receive), _stamp(record)
        call = await beside_the_loop(is_large(body), lambda: self._parse(body, stamp, record))
        self.policy.caps.check(call)
        asked = self.operation.plain_name(call.request.model)
        record.model = self.models.resolve(asked, self.operation.exact_model)
        adapters, ignored = settled_adapters(self.models, call, asked)
        is_served = asked in ("", "default", *self.models.names)
        if not is_served:  # the only model answers to any name
            ignored = [*ignored, "model"]
        changes: dict[str, Any] = {"model": record.model, "adapters": adapters or None}
        if record.tenant:
            salt = own_salt(call.request.cache_salt, record.tenant)
            changes |= {"tenant": record.tenant, "cache_salt": salt}
        if not self._is_seeded(call, record.model):
            changes["sampling"] = msgspec.structs.replace(call.request.sampling, seed=None)
        if self.policy.fim_only and call.request.infill is not None:
            changes["infill"] = _fim_only(call.request.infill)
        request = msgspec.structs.replace(call.request, **changes)
        named = call.request.model if asked in self.models.names else record.model
        call = msgspec.structs.replace(
            call,
            request=request,
            named=named,
            ignored=(*call.ignored, *ignored),
            adapter_numbers=self._numbers(asked) if adapters else {},
        )
        if call.keep_s is None or self.policy.client_keep_alive:
            return call
        name = call.given.get("keep_s", "keep_alive")
        return msgspec.structs.replace(call, keep_s=None, ignored=(*call.ignored, name))

    def _numbers(self, model: str) -> dict[str, int]:
        """Of the model's adapters, by name."""
        return {each.name: number for number, each in enumerate(self.models.adapters(model))}

    def _is_seeded(self, call: Call, model: str) -> bool:
        """Whether the request has a seed of its own, or its engine promises something of a random one."""
        engine = self.models.loaded(model)
        is_own = call.request.sampling.seed != call.stamp.seed
        return is_own or engine is None or engine.info.seeds_requests

    def _parse(self, body: bytes, stamp: Stamp, record: RequestRecord) -> Call:
        sent = decode(body)
        header = self.operation.priority_header
        if header and self.policy.heeds_priorities and isinstance(sent, dict):
            told = dict(record.headers).get(header, b"").strip()
            if _NUMBER.fullmatch(told):
                sent["priority"] = int(told)
        return self.operation.parse(sent, stamp, self.policy.defaults)

    async def _submit(
        self, call: Call, record: RequestRecord, sink: Sink
    ) -> AsyncGenerator[Event, None]:
        request = call.request
        if not request.prompts:
            # No prompt: the request only loads or unloads the model.
            if call.keep_s != 0:
                await open_engine(self.models, request.model)
            self._keep(call)
            return _nothing(request)
        engine = await open_engine(self.models, request.model)
        info = engine.info
        call = self.operation.fill(call, info, self.policy.defaults)
        request = call.request
        if self.operation.check:
            self.operation.check(call, info)
        self.policy.caps.check_length(call, info.context_length, info.has_fim)
        if record.permit is not None:
            record.permit.widen(candidates(request, info.has_fim))
        if self.operation.adapt:
            request = await asyncio.to_thread(self.operation.adapt, call, engine.info)
            # The model may have been unloaded meanwhile.
            engine = await open_engine(self.models, request.model)
        return engine.submit(self.policy.caps.bounded(request), sink)

    def _keep(self, call: Call) -> None:
        if call.keep_s is not None:
            self.models.keep(call.request.model, call.keep_s)

    async def _answer(
        self, call: Call, feed: Feed, send: Send, headers: list[Header], record: RequestRecord
    ) -> None:
        tally, size = Tally(call.request), 0
        while not tally.is_done:
            for event in await feed.take():
                if isinstance(event, Failed):
                    raise error_of(event)
                tally.push(event)
                size += num_scores(event)
            if size > MAX_ANSWER_SCORES:
                raise InvalidField(_TOO_MANY_SCORES, call.given.get("logprobs", "logprobs"))
        headers += [*found(tally.prompts), *await self._load(call, record)]
        num_chars = sum(num_repeated(prompt, call.request) for prompt in tally.prompts)
        num_chars += call.shape.get(TOLD, 0) * len(tally.choices)
        is_long = size * call.request.n > LARGE_ANSWER_ITEMS or num_chars > LARGE_ANSWER_CHARS
        renderer = self._renderer(call)
        messages = await beside_the_loop(
            is_long, lambda: reply_messages(Reply(renderer.fold(tally)), headers)
        )
        for message in messages:
            await send(message)

    async def _load(self, call: Call, record: RequestRecord) -> list[Header]:
        """What its engine has to do, if that is asked for."""
        wanted = dict(record.headers).get(_LOAD_FORMAT) if self.operation.reports_load else None
        engine = self.models.loaded(call.request.model) if wanted else None
        if wanted is None or engine is None:
            return []
        with contextlib.suppress(SegueError):  # it is being restarted
            return load_report(wanted, await engine.stats())
        return []

    async def _stream(
        self,
        call: Call,
        feed: Feed,
        send: Send,
        headers: list[Header],
        writer: ChunkWriter | None,
    ) -> None:
        frame = FRAMES[self.operation.framing]
        events = await feed.take(HEADERS_AFTER_S)
        for event in events:
            if isinstance(event, Failed):
                raise error_of(event)
        prompts = [event for event in events if isinstance(event, Prompted)]
        headers += found(prompts) if prompts else self._foreseen(call)
        await feed.pass_on(_start(send, frame, headers))
        ping_s = call.shape.get(PING, self.policy.ping_interval_s)
        if ping_s <= 0:
            ping_s = FOREVER_S
        while not events:  # the model is being loaded, and every object contains fields about it
            events = await feed.take(ping_s)
            for body in [] if events else frame.note(KEEP_ALIVE):
                await feed.pass_on(_send_part(send, body, True))
        stream = Stream(call, frame, self._renderer(call), partial(self._broken, call))
        while True:
            feed.direct = None  # so that later events are not written before these
            is_long = stream.is_long(events)
            writes, is_over = await beside_the_loop(is_long, partial(stream.render, events))
            for left, body in zip(reversed(range(len(writes))), writes, strict=True):
                await feed.pass_on(_send_part(send, body, left > 0 or not is_over))
            if is_over:
                return
            if writer is not None:
                feed.direct = partial(stream.write, writer)
            events = await feed.take(ping_s)

    def _coalescer(self, call: Call) -> Coalescer | None:
        """What joins tokens to chunks: as many as the server or the request asks for, if that is more."""
        interval = max(self.policy.stream_interval, call.shape.get(INTERVAL, 1))
        return Coalescer(interval) if call.stream and interval > 1 else None

    def _renderer(self, call: Call) -> Renderer:
        """A renderer with the facts of the model, if it is still loaded."""
        engine = self.models.loaded(call.request.model)
        if engine is None:
            return self.operation.renderer(call)
        shown = fingerprint_of(engine.info, call.request)
        stamp = msgspec.structs.replace(call.stamp, fingerprint=shown)
        call = self.operation.fill(call, engine.info, self.policy.defaults)
        return self.operation.renderer(msgspec.structs.replace(call, stamp=stamp, info=engine.info))

    def _foreseen(self, call: Call) -> list[Header]:
        """Headers that are known before the prompt is computed."""
        engine, infill = self.models.loaded(call.request.model), call.request.infill
        constraint = call.request.constraint
        headers: list[Header] = []
        if constraint is not None and may_be_ignored(constraint):
            headers += ignored_header([constraint.param])
        if engine is not None and infill is not None:
            headers += infill_header(infill.method(engine.info.has_fim))
        return headers

    def _broken(self, call: Call, failed: Failed) -> Any:
        """The last object of a stream that failed."""
        shape = self.operation.stream_error or self.error
        return shape(as_sent(error_of(failed), call)).body


def _fim_only(infill: Infill) -> Infill:
    if infill.mode == "ranked":
        message = "must be fim or left out: this server fills gaps by a model's own tokens only"
        raise InvalidField(f"infill_mode {message}", "infill_mode")
    return msgspec.structs.replace(infill, mode="fim")


def _stamp(record: RequestRecord) -> Stamp:
    arrived = time.time()
    return Stamp(
        request_id=record.request_id,
        public_id=record.public_id,
        created=int(arrived),
        arrived=arrived,
        seed=secrets.randbelow(DRAWN_SEEDS),
        fingerprint=unpromised("nothing"),  # until the model is known
        now=time.time,
    )


async def _nothing(request: CompletionRequest) -> AsyncGenerator[Event, None]:
    yield Done(Usage(0, 0, 0), request.sampling.seed or 0)


async def _start(send: Send, frame: Frame, headers: Iterable[Header]) -> None:
    own = [(b"content-type", frame.content_type), *STREAM_HEADERS, *headers]
    await send({"type": "http.response.start", "status": 200, "headers": own})


async def _send_part(send: Send, body: bytes, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def _send(send: Send, reply: Reply, headers: Iterable[Header] = ()) -> None:
    for message in reply_messages(reply, headers):
        await send(message)
