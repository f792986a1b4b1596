"""The access log record of one request: its key, its cost, its end."""

import logging
import re
import secrets
import time
from collections.abc import Mapping

from starlette.types import Scope

from segue.errors import BY_CODE, EngineFault, SegueError
from segue.metrics.figures import Figures
from segue.server.admission.limits import Permit
from segue.server.admission.token_gaps import TokenGaps
from segue.types import Delta, Done, Event, Failed, Finished, Prompted, Reason

access = logging.getLogger("segue.access")

CLIENT_LEFT = 499  # logged, never sent
_STATE = "segue.request_record"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_-]{1,64}")
_FIELD = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")  # of the tables; a client may have made up another
_MAX_PATH_CHARS = 200
# Probes repeat every few seconds: without an error they are logged at debug level.
_QUIET = frozenset({"health", "livez", "readyz", "ping", "metrics", "models.json"})


def header_values(scope: Scope, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


class RequestRecord:
    def __init__(self, scope: Scope) -> None:
        scope[_STATE] = self
        given = header_values(scope, b"x-request-id")
        is_usable = len(given) == 1 and _REQUEST_ID.fullmatch(given[0])
        self.request_id = secrets.token_hex(12)  # the engine's: unique, unlike a client's
        self.public_id = given[0].decode() if is_usable else self.request_id
        self.tenant = ""  # the name of its key
        self.model = ""
        self.permit: Permit | None = None
        self.status = 0  # 0 until there is an answer
        self.is_over = False  # its place is free, and it is logged and counted
        self.failure = ""  # the code of the error that it ended with
        self.field = ""  # what that error names
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.queue_s: float | None = None  # until its first prompt token was computed
        self.token_s: float | None = None  # until its first token arrived
        self.gaps = TokenGaps()
        self._figures = Figures()
        self.reasons: dict[int, Reason] = {}  # why each choice ended
        self.started_ns = time.time_ns()
        self._begun_at = time.perf_counter()
        self._first_at: float | None = None
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]

    @staticmethod
    def of(scope: Scope) -> "RequestRecord":
        record: RequestRecord = scope[_STATE]
        return record

    def push(self, event: Event) -> None:
        """Record an event of the engine. Tokens are charged as they come."""
        if self._first_at is None and not isinstance(event, Failed):
            self._first_at = time.perf_counter()
            if self.permit is not None:
                self.permit.begin()
        match event:
            case Delta():
                if self.token_s is None:
                    self.token_s = self.elapsed_s
                num_tokens = len(event.tokens)
                self.gaps.push(event.choice, event.decode_s, num_tokens)
                self.completion_tokens += num_tokens
                self._charge(num_tokens)
            case Prompted():
                if self.queue_s is None:
                    self.queue_s = max(0.0, self.elapsed_s - event.prompt_s)
                self.cached_tokens += event.num_cached
                self.prompt_tokens += len(event.tokens)
                self._charge(len(event.tokens))
                self._figures.prompted(event)
            case Finished():
                self.reasons[event.choice] = event.reason
                self._figures.finished(event)
            case Done():  # also counts candidates that were not returned
                usage, before = event.usage, self.prompt_tokens + self.completion_tokens
                self.prompt_tokens = usage.prompt_tokens
                self.completion_tokens = usage.completion_tokens
                self._charge(self.prompt_tokens + self.completion_tokens - before)
                self._figures.answered()
            case Failed():
                self.failure = event.code

    def refuse(self, error: SegueError) -> None:
        """It is answered with this error. Its message is not logged: it may quote a prompt."""
        self.failure = error.code
        if error.param is not None and _FIELD.fullmatch(error.param):
            self.field = error.param

    def _charge(self, num_tokens: int) -> None:
        if self.permit is not None:
            self.permit.charge(num_tokens)

    @property
    def elapsed_s(self) -> float:
        return time.perf_counter() - self._begun_at

    @property
    def first_s(self) -> float | None:
        """Until the model's first event; None if it had none, or refused the request."""
        return None if self._first_at is None else self._first_at - self._begun_at

    @property
    def outcome(self) -> int:
        """The status of its end: an answer that failed after it had begun has that of its error."""
        has_broken = self.failure != "" and self.status < 400
        return BY_CODE.get(self.failure, EngineFault).status if has_broken else self.status

    def figures(self) -> Mapping[int, float]:
        """What the metrics count of it, once it is over; nothing if its model never had it."""
        told, outcome = self._figures, self.outcome
        if self.model and (outcome == CLIENT_LEFT or outcome >= 500):
            told.ended("abort" if outcome == CLIENT_LEFT else "error")
        if self.first_s is not None:
            told.observe("whole_s", self.elapsed_s)
        if self.queue_s is not None:
            told.observe("queue_s", self.queue_s)
        if self.token_s is not None:
            told.observe("first_s", self.token_s)
            told.gaps(self.gaps.end())
        return told.numbers

    def log(self) -> None:
        """Write the access log line of this request."""
        level = logging.DEBUG if self.is_probe else logging.INFO
        if access.isEnabledFor(level):
            facts = self._facts()
            access.log(level, "%s", _line(facts), extra={"facts": facts})

    @property
    def is_probe(self) -> bool:
        """Whether it was a health check that went well."""
        last = self.path.rpartition("/")[2]
        return self.method in ("GET", "HEAD") and self.status < 400 and last in _QUIET

    def _facts(self) -> dict[str, str | int | float]:
        """What there is to tell, by the names it has in logs of JSON."""
        is_own = self.public_id == self.request_id
        told = {
            "engine_id": "" if is_own else self.request_id,
            "key": self.tenant,
            "model": self.model,
            "error": self.failure,
            "field": self.field,
        }
        facts: dict[str, str | int | float] = {
            "request_id": self.public_id,
            "method": self.method,
            "path": self.path[:_MAX_PATH_CHARS],
            "status": self.status,
            **{name: value for name, value in told.items() if value},
        }
        if self.first_s is not None:
            facts["prompt_tokens"] = self.prompt_tokens
            facts["completion_tokens"] = self.completion_tokens
            facts["first_ms"] = round(self.first_s * 1000, 1)
        facts["total_ms"] = round(self.elapsed_s * 1000, 1)
        return facts


def _line(facts: dict[str, str | int | float]) -> str:
    """The same for people: the first four without their names, the others in short."""
    (_, request_id), (_, method), (_, path), (_, status), *others = facts.items()
    words = (f"{name.removesuffix('_tokens')}={value}" for name, value in others)
    return " ".join((f"{request_id} {method} {path!a} {status}", *words))
