"""One exception tree. Each leaf carries the HTTP status and the machine code a client sees.

SegueError
├── RequestError                 the caller can mend it
│   ├── MalformedHttp            400 malformed_http
│   ├── TlsSpoken                400 tls_not_spoken           https:// to this port of http://
│   ├── MalformedBody            400 invalid_json
│   ├── InvalidField             400 invalid_value            names the field
│   ├── PromptTooLong            400 context_length_exceeded
│   ├── Unauthorized             401 invalid_api_key
│   ├── Forbidden                403 forbidden
│   ├── UnknownModel             404 model_not_found
│   ├── UnknownPath              404 not_found
│   ├── WrongMethod              405 method_not_allowed
│   ├── BodyTooSlow              408 body_timeout
│   ├── BodyTooLarge             413 body_too_large
│   ├── UrlTooLong               414 url_too_long
│   ├── UnsupportedMedia         415 unsupported_media_type
│   ├── HeadTooLarge             431 head_too_large
│   ├── Unsupported              501 not_supported            this model or server cannot do it
│   ├── WrongHttpVersion         505 http_version_not_supported
│   └── Overloaded               429 rate_limit_exceeded      Retry-After
├── ServiceError                 the caller may try again
│   ├── Unavailable              503 unavailable              loading, restarting or draining; Retry-After
│   ├── EngineDied               503 engine_died              the model process ended under the request; Retry-After
│   ├── TimedOut                 504 timeout
│   ├── OutOfSpace               507 out_of_space             of a folder where clients may have files
│   └── EngineFault              500 engine_fault             our bug, or the model's
└── SetupError                   raised before there is a server, or a model; printed by the command line
    ├── ModelUnavailable         cannot be found, fetched or read
    └── Incompatible             a library or machine that cannot run it
"""

import errno
from collections.abc import Mapping
from typing import ClassVar


class SegueError(Exception):
    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"
    usual_retry_s: ClassVar[float | None] = None  # when to try again, unless a raiser knows better

    def __init__(
        self,
        message: str,
        param: str | None = None,
        retry_after_s: float | None = None,
        details: Mapping[str, int] | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = self.usual_retry_s if retry_after_s is None else retry_after_s
        self.details = dict(details or {})  # figures that belong to the code


class RequestError(SegueError):
    status = 400


class MalformedHttp(RequestError):
    code = "malformed_http"


class TlsSpoken(RequestError):
    code = "tls_not_spoken"


class MalformedBody(RequestError):
    code = "invalid_json"


class InvalidField(RequestError):
    code = "invalid_value"


class PromptTooLong(RequestError):
    code = "context_length_exceeded"


class Unauthorized(RequestError):
    status = 401
    code = "invalid_api_key"


class Forbidden(RequestError):
    status = 403
    code = "forbidden"


class UnknownModel(RequestError):
    status = 404
    code = "model_not_found"


class UnknownPath(RequestError):
    status = 404
    code = "not_found"
    hint = ""  # the last sentence of the message, for systems with a message of their own


class WrongMethod(RequestError):
    status = 405
    code = "method_not_allowed"


class BodyTooSlow(RequestError):
    status = 408
    code = "body_timeout"


class BodyTooLarge(RequestError):
    status = 413
    code = "body_too_large"


class UrlTooLong(RequestError):
    status = 414
    code = "url_too_long"


class UnsupportedMedia(RequestError):
    status = 415
    code = "unsupported_media_type"


class HeadTooLarge(RequestError):
    status = 431
    code = "head_too_large"


class Unsupported(RequestError):
    status = 501
    code = "not_supported"


class WrongHttpVersion(RequestError):
    status = 505
    code = "http_version_not_supported"


class Overloaded(RequestError):
    status = 429
    code = "rate_limit_exceeded"
    usual_retry_s = 1.0


class ServiceError(SegueError):
    status = 503


class Unavailable(ServiceError):
    code = "unavailable"
    usual_retry_s = 1.0


class EngineDied(ServiceError):
    code = "engine_died"
    usual_retry_s = 1.0


class TimedOut(ServiceError):
    status = 504
    code = "timeout"


class OutOfSpace(ServiceError):
    status = 507
    code = "out_of_space"


class EngineFault(ServiceError):
    status = 500
    code = "engine_fault"


class SetupError(SegueError):
    code = "setup_error"


class ModelUnavailable(SetupError):
    code = "model_unavailable"


class Incompatible(SetupError):
    code = "incompatible"


def _leaves(root: type[SegueError]) -> list[type[SegueError]]:
    children = root.__subclasses__()
    return [leaf for child in children for leaf in _leaves(child)] if children else [root]


_RAISED: list[type[SegueError]] = [*_leaves(SegueError), SetupError]
# An error crosses the process boundary as its code (types.Failed) and is raised again by it.
BY_CODE: dict[str, type[SegueError]] = {each.code: each for each in _RAISED}


# --- errors of the system, which has no more to give: a sentence tells more of them than a traceback ---

_OF_FILES = "open files: raise the limit (ulimit -n, LimitNOFILE)"
_OF_MEMORY = "memory: free some, or raise the limit (ulimit -v, that of the container)"
_OF_THREADS = "threads or processes: raise the limit (ulimit -u, pids.max), or that of memory"
_BY_NUMBER = {
    errno.EMFILE: _OF_FILES,
    errno.ENFILE: _OF_FILES,
    errno.ENOMEM: _OF_MEMORY,
    errno.EAGAIN: _OF_THREADS,  # of fork
    errno.ENOSPC: "space on the disk",
}


def shortage(error: BaseException) -> str | None:
    """What the system does not give, in a sentence; None if the error is another."""
    match error:
        case MemoryError():
            what = _OF_MEMORY
        case OSError(errno=int(number)) if number in _BY_NUMBER:
            what = _BY_NUMBER[number]
        case RuntimeError() if "start new thread" in str(error):  # Python has no class for it
            what = _OF_THREADS
        case _:
            return None
    return f"the system gives this process no more {what}"
