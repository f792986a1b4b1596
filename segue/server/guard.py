"""What stands before every endpoint: the door, the body, a place in the queue, and the line in the log."""

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.dialects.base import Dialect, Reply
from segue.errors import EngineFault, SegueError
from segue.server.bodies import replayed
from segue.server.door import METHODS_WITH_BODY, Door, Entry
from segue.server.feed import Disconnected
from segue.server.framing import Header, error_headers, reply_messages
from segue.server.origins import is_preflight, preflight_headers

log = logging.getLogger(__name__)

MAX_LOGGED_BYTES = 4096


class Guard:
    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        entry = Entry(scope)
        answer = _Answer(send, entry)
        dialect_at = self._door.dialect_at
        try:
            await self._let_in(scope, receive, answer, entry)
        except Disconnected:
            pass
        except SegueError as error:
            await answer.refuse(dialect_at(scope["path"]), error)
        except Exception:
            log.exception("request %s failed", entry.visit.request_id)
            if answer.has_begun:
                raise  # closes the connection: there is no other way left to tell
            fault = EngineFault("The server failed on this request.")
            await answer.refuse(dialect_at(scope["path"]), fault)
        finally:
            self._door.see_off(entry.visit)

    async def _let_in(
        self, scope: Scope, receive: Receive, answer: "_Answer", entry: Entry
    ) -> None:
        self._door.examine(scope, entry)
        if is_preflight(scope):
            return await answer.send_empty(preflight_headers())
        if scope["method"] not in METHODS_WITH_BODY:
            return await self._app(scope, receive, answer)
        bodies = self._door.bodies
        body = await bodies.read(receive)
        try:
            await self._admit(scope, replayed(body, receive), answer, entry, body)
        finally:
            bodies.release(len(body))

    async def _admit(
        self, scope: Scope, receive: Receive, answer: "_Answer", entry: Entry, body: bytes
    ) -> None:
        visit = entry.visit
        if self._door.policy.log_prompts:
            log.info("%s sent %r", visit.public_id, body[:MAX_LOGGED_BYTES])
        visit.permit = self._door.limiter.admit(visit.tenant)
        try:
            await self._app(scope, receive, answer)
        finally:
            visit.permit.release()


class _Answer:
    """Sends on, and puts in what every answer carries."""

    def __init__(self, send: Send, entry: Entry) -> None:
        self._send = send
        self._entry = entry

    @property
    def has_begun(self) -> bool:
        return self._entry.visit.status != 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._entry.visit.status = message["status"]
            headers = message["headers"]
            message = {**message, "headers": [*headers, *self._entry.carried(headers)]}
        await self._send(message)

    async def refuse(self, dialect: Dialect, error: SegueError) -> None:
        for message in reply_messages(dialect.error(error), error_headers(error)):
            await self(message)

    async def send_empty(self, headers: tuple[Header, ...]) -> None:
        for message in reply_messages(Reply("", 204), headers):
            await self(message)
