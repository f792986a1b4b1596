"""The middleware before every endpoint: admission, body, a place in the queue, and the access log."""

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.dialects.base import Dialect, Reply
from segue.errors import EngineFault, SegueError
from segue.server.admission.admission import Admission, IncomingRequest
from segue.server.admission.bodies import holder, replayed
from segue.server.admission.cors import is_preflight
from segue.server.admission.request_record import CLIENT_LEFT, RequestRecord
from segue.server.feed import Disconnected
from segue.server.framing import error_headers, reply_messages

log = logging.getLogger(__name__)

MAX_LOGGED_BYTES = 4096


class Guard:
    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = IncomingRequest.of(scope)
        answer = _Answer(send, incoming, self._admission.finish)
        dialect_at = self._admission.dialect_at
        try:
            await self._serve(scope, receive, answer, incoming)
        except Disconnected:
            incoming.record.status = CLIENT_LEFT  # also if the answer had begun
        except SegueError as error:
            await answer.refuse(dialect_at(scope["path"]), error)
        except Exception:
            log.exception("request %s failed", incoming.record.request_id)
            if answer.has_begun:
                raise  # closes the connection: the status has been sent already
            fault = EngineFault("The server failed on this request.")
            await answer.refuse(dialect_at(scope["path"]), fault)
        finally:
            self._admission.finish(incoming.record)

    async def _serve(
        self, scope: Scope, receive: Receive, answer: "_Answer", incoming: IncomingRequest
    ) -> None:
        self._admission.examine(scope, incoming)
        if is_preflight(scope):
            return await answer.send_empty()
        if not self._admission.reads_body(scope):
            return await self._app(scope, receive, answer)
        async with self._admission.bodies.read(receive, holder(scope, incoming.record)) as body:
            await self._admit(scope, replayed(body, receive), answer, incoming, body)

    async def _admit(
        self,
        scope: Scope,
        receive: Receive,
        answer: "_Answer",
        incoming: IncomingRequest,
        body: bytes,
    ) -> None:
        record = incoming.record
        if self._admission.policy.log_prompts:
            log.info("%s sent %r", record.public_id, body[:MAX_LOGGED_BYTES])
        self._admission.admit(scope, record)
        await self._app(scope, receive, answer)


class _Answer:
    """Wraps `send`, and adds the headers that every answer carries.

    `finish` is called before the last write: a client that has read its answer to the end finds its place free,
    and the answer logged and counted.
    """

    def __init__(
        self, send: Send, incoming: IncomingRequest, finish: Callable[[RequestRecord], None]
    ) -> None:
        self._send = send
        self._incoming = incoming
        self._finish = finish

    @property
    def has_begun(self) -> bool:
        return self._incoming.record.status != 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._incoming.record.status = message["status"]
            headers = message["headers"]
            message = {**message, "headers": [*headers, *self._incoming.added(headers)]}
        elif not message.get("more_body", False):  # the last part of the body
            self._finish(self._incoming.record)
        await self._send(message)

    async def refuse(self, dialect: Dialect, error: SegueError) -> None:
        self._incoming.record.refuse(error)
        for message in reply_messages(dialect.error(error), error_headers(error)):
            await self(message)

    async def send_empty(self) -> None:
        for message in reply_messages(Reply("", 200)):
            await self(message)
