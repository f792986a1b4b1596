"""The one door: what is refused before any endpoint sees it, what every answer carries, and the line in the log."""

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.dialects.base import Dialect, Reply
from segue.errors import EngineFault, SegueError
from segue.metrics import Metrics
from segue.server.bodies import Bodies, replayed
from segue.server.feed import Disconnected
from segue.server.framing import Header, error_headers, reply_messages
from segue.server.keys import PUBLIC_PATHS
from segue.server.limits import Limiter
from segue.server.origins import is_preflight, preflight_headers
from segue.server.policy import Policy
from segue.server.visit import CLIENT_LEFT, Visit

log = logging.getLogger(__name__)

METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
MAX_LOGGED_BYTES = 4096

HYGIENE: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PAGE_HYGIENE: tuple[Header, ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        dialect_at: Callable[[str], Dialect],
        policy: Policy,
        limiter: Limiter,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._dialect_at = dialect_at
        self._policy = policy
        self._limiter = limiter
        self._metrics = metrics
        self._bodies = Bodies(policy.max_body_bytes, policy.body_timeout_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visit = Visit(scope)
        answer = _Answer(send, visit)
        try:
            await self._let_in(scope, receive, answer, visit)
        except Disconnected:
            pass
        except SegueError as error:
            await answer.refuse(self._dialect_at(scope["path"]), error)
        except Exception:
            log.exception("request %s failed", visit.request_id)
            if answer.has_begun:
                raise  # closes the connection: there is no other way left to tell
            fault = EngineFault("The server failed on this request.")
            await answer.refuse(self._dialect_at(scope["path"]), fault)
        finally:
            visit.status = visit.status or CLIENT_LEFT
            visit.tell()
            self._metrics.observe(visit.status, visit.first_s, visit.elapsed_s)

    async def _let_in(
        self, scope: Scope, receive: Receive, answer: "_Answer", visit: Visit
    ) -> None:
        policy = self._policy
        if policy.hosts is not None:
            policy.hosts.check(scope)
        answer.headers += policy.origins.check(scope)
        if is_preflight(scope):
            return await answer.send_empty(preflight_headers())
        if policy.keys is not None and scope["path"] not in PUBLIC_PATHS:
            visit.tenant = policy.keys.check(scope)
        if scope["method"] not in METHODS_WITH_BODY:
            return await self._app(scope, receive, answer)
        answer.rates = lambda: self._limiter.headers(visit.tenant)
        self._bodies.check(scope, self._dialect_at(scope["path"]))
        self._limiter.check(visit.tenant)
        body = await self._bodies.read(receive)
        try:
            await self._admit(scope, replayed(body, receive), answer, visit, body)
        finally:
            self._bodies.release(len(body))

    async def _admit(
        self, scope: Scope, receive: Receive, answer: "_Answer", visit: Visit, body: bytes
    ) -> None:
        if self._policy.log_prompts:
            log.info("%s sent %r", visit.public_id, body[:MAX_LOGGED_BYTES])
        visit.permit = self._limiter.admit(visit.tenant)
        try:
            await self._app(scope, receive, answer)
        finally:
            visit.permit.release()


class _Answer:
    """Sends on, and puts in what every answer carries."""

    def __init__(self, send: Send, visit: Visit) -> None:
        self._send = send
        self._visit = visit
        self.headers: list[Header] = [(b"x-request-id", visit.public_id.encode()), *HYGIENE]
        self.rates: Callable[[], list[Header]] = list  # as they are when the answer begins

    @property
    def has_begun(self) -> bool:
        return self._visit.status != 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._visit.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._own(message["headers"])]}
        await self._send(message)

    def _own(self, headers: list[Header]) -> list[Header]:
        is_page = dict(headers).get(b"content-type", b"").startswith(b"text/html")
        return [*self.headers, *self.rates(), *(PAGE_HYGIENE if is_page else ())]

    async def refuse(self, dialect: Dialect, error: SegueError) -> None:
        for message in reply_messages(dialect.error(error), error_headers(error)):
            await self(message)

    async def send_empty(self, headers: tuple[Header, ...]) -> None:
        for message in reply_messages(Reply("", 204), headers):
            await self(message)
