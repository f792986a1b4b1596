"""Admission by a request's head alone: whether it is admitted, how it is refused, and the headers of every answer.

Nothing here waits, so many requests can be refused without a task for each.
"""

from collections.abc import Callable
from typing import NamedTuple

from starlette.types import Scope

from segue.dialects.base import Dialect
from segue.errors import SegueError
from segue.metrics.page import Metrics
from segue.server.admission.bodies import Bodies
from segue.server.admission.cors import is_preflight
from segue.server.admission.limits import Limiter
from segue.server.admission.policy import Policy
from segue.server.admission.request_record import CLIENT_LEFT, RequestRecord
from segue.server.framing import Header, error_headers, reply_messages

# Called with a request that ended, and the name of its dialect.
Trace = Callable[[RequestRecord, str], None]

METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})

SECURITY_HEADERS: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PAGE_SECURITY_HEADERS: tuple[Header, ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class Refusal(NamedTuple):
    """A whole answer."""

    status: int
    headers: list[Header]
    body: bytes


_STATE = "segue.incoming_request"


class IncomingRequest:
    """One request during admission. `is_examined`: it was admitted."""

    def __init__(self, scope: Scope) -> None:
        scope[_STATE] = self
        self.is_examined = False
        self.record = RequestRecord(scope)
        self.headers: list[Header] = [
            (b"x-request-id", self.record.public_id.encode()),
            *SECURITY_HEADERS,
        ]
        self.rates: Callable[[], list[Header]] = list  # evaluated when the answer begins

    @staticmethod
    def of(scope: Scope) -> "IncomingRequest":
        """The one that the connection made, or a new one if the server is not ours (tests)."""
        incoming: IncomingRequest | None = scope.get(_STATE)
        return incoming or IncomingRequest(scope)

    def added(self, headers: list[Header]) -> list[Header]:
        """Further headers for an answer with these headers."""
        is_page = dict(headers).get(b"content-type", b"").startswith(b"text/html")
        return [*self.headers, *self.rates(), *(PAGE_SECURITY_HEADERS if is_page else ())]


class Admission:
    def __init__(
        self,
        dialect_at: Callable[[str], Dialect],
        policy: Policy,
        limiter: Limiter,
        metrics: Metrics,
        *,
        public_paths: frozenset[str],
        free_paths: frozenset[tuple[str, str]],
        check_path: Callable[[Scope], None],
        trace: Trace | None,
        num_processes: int,
    ) -> None:
        """`check_path` raises UnknownPath: the body of a request to an unknown path is not read. `free_paths`: methods
        and paths that no limit counts, such as that by which a client stops what has taken all that it may have."""
        self.dialect_at = dialect_at
        self.public_paths = public_paths
        self._free_paths = free_paths
        self._check_path = check_path
        self.policy = policy
        self.limiter = limiter
        self.bodies = Bodies(policy.max_body_bytes, policy.body_timeout_s, num_processes)
        self._metrics = metrics
        self._trace = trace

    def examine(self, scope: Scope, incoming: IncomingRequest) -> None:
        """Admit the request or raise SegueError. A request that was admitted already is not examined again."""
        if incoming.is_examined:
            return
        policy, record = self.policy, incoming.record
        if policy.hosts is not None:
            policy.hosts.check(scope)
        incoming.headers += policy.origins.check(scope)
        if not is_preflight(scope) and scope["path"] not in self.public_paths:
            if policy.keys is not None:
                record.tenant = policy.keys.check(scope)
            if scope["method"] in METHODS_WITH_BODY:
                incoming.rates = lambda: self.limiter.headers(record.tenant)
                self._check_path(scope)
                self.bodies.check(scope, self.dialect_at(scope["path"]))
                if self._is_counted(scope):
                    self.limiter.check(record.tenant)
        incoming.is_examined = True

    def admit(self, scope: Scope, record: RequestRecord) -> None:
        """Give it a place, now that its body is here. Raises Overloaded."""
        if self._is_counted(scope):
            record.permit = self.limiter.admit(record.tenant)

    def _is_counted(self, scope: Scope) -> bool:
        return (scope["method"], scope["path"]) not in self._free_paths

    @property
    def is_full(self) -> bool:
        return self.limiter.is_full or self.bodies.is_full

    def reads_body(self, scope: Scope) -> bool:
        """Whether the body is read. Not on public paths: clients without a key must not use memory for bodies."""
        return scope["method"] in METHODS_WITH_BODY and scope["path"] not in self.public_paths

    def refusal(self, scope: Scope) -> Refusal | None:
        """The answer of a refusal; None: the request is admitted."""
        incoming = IncomingRequest(scope)
        try:
            self.examine(scope, incoming)
        except SegueError as error:
            return self._refuse(incoming, error)
        return None

    def broken_off(self, scope: Scope, error: SegueError) -> Refusal:
        """The answer of a connection that cannot read on. `scope`: of its request, as far as its head was read."""
        return self._refuse(IncomingRequest.of(scope), error)

    def _refuse(self, incoming: IncomingRequest, error: SegueError) -> Refusal:
        record = incoming.record
        reply = self.dialect_at(record.path).error(error)
        start, body = reply_messages(reply, error_headers(error))
        headers = [*start["headers"], *incoming.added(start["headers"])]
        record.status = reply.status
        record.refuse(error)
        self.finish(record)
        return Refusal(reply.status, headers, body["body"])

    def finish(self, record: RequestRecord) -> None:
        """The request ended: free its place, write its access log line, count it in the metrics, trace it.
        A second call has no effect."""
        if record.is_over:
            return
        record.is_over = True
        if record.permit is not None:
            record.permit.release()
        record.status = record.status or CLIENT_LEFT
        record.log()
        self._metrics.observe(record.outcome, record.model, record.figures())
        if self._trace is not None:
            self._trace(record, self.dialect_at(record.path).name)
