"""CORS: which pages of other origins may use this server, by the Origin header that browsers send."""

import re
from collections.abc import Iterable

from starlette.types import Scope

from segue.errors import Forbidden, SetupError
from segue.server.admission.hosts import is_loopback, without_port
from segue.server.admission.request_record import header_values
from segue.server.framing import Header

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_WEB_SCHEMES = ("http", "https")
FORM = (
    "*, localhost, a scheme with its colon, or an origin without a path such as https://example.org"
)
_FORM = re.compile(r"\*|localhost|null|[a-z][a-z0-9+.-]*:(//[^/\s]+)?")


class Origins:
    """Other origins whose pages may use this server (CORS): none by default.

    `*` is every origin, `localhost` every page of this machine on any port, and a scheme with its
    colon (`vscode-webview:`, `app:`) every origin of that scheme. Anything else is one origin.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Raises SetupError for what is no origin: no browser would ever send it."""
        allowed = list(allowed)
        for origin in allowed:
            if not _FORM.fullmatch(origin):
                raise SetupError(f"--cors-origin must be {FORM}, not {origin!r}")
        self._allowed = frozenset(origin.encode() for origin in allowed)

    def check(self, scope: Scope) -> list[Header]:
        """The headers that let the page read the answer, and send what a preflight asks for. Raises Forbidden.

        A preflight of another origin is no error, but has no such headers: the browser goes no further.
        """
        origins = header_values(scope, b"origin")
        if not origins or (len(origins) == 1 and self._is_own(origins[0], scope)):
            return []
        if len(origins) == 1 and (name := self._allows(origins[0])):
            return [
                (b"access-control-allow-origin", name),
                # Browsers reject `*` together with credentials.
                *([] if name == b"*" else [(b"access-control-allow-credentials", b"true")]),
                (b"access-control-expose-headers", b"*"),
                (b"vary", b"origin"),
                *(_preflight_headers(scope) if is_preflight(scope) else ()),
            ]
        if scope["method"] not in _SAFE_METHODS:
            raise Forbidden("Pages of that origin may not use this server; see --cors-origin.")
        return []

    def _allows(self, origin: bytes) -> bytes:
        """The allow-origin value for an allowed origin; empty for others."""
        if b"*" in self._allowed:
            return b"*"
        scheme, _, host = origin.decode("latin-1").partition("://")
        is_local = scheme in _WEB_SCHEMES and is_loopback(without_port(host))
        known = {origin, f"{scheme}:".encode(), *([b"localhost"] if is_local else [])}
        return origin if known & self._allowed else b""

    def _is_own(self, origin: bytes, scope: Scope) -> bool:
        """Whether the page is from this server. The scheme is not compared: a proxy may have changed it."""
        return [origin.partition(b"://")[2] or None] == header_values(scope, b"host")


def is_preflight(scope: Scope) -> bool:
    asks = header_values(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks) and bool(header_values(scope, b"origin"))


def _preflight_headers(scope: Scope) -> tuple[Header, ...]:
    """Preflight headers that allow every requested header by name: with credentials, `*` is taken literally."""
    asked = b", ".join(header_values(scope, b"access-control-request-headers"))
    return (
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", asked or b"*"),
        (b"access-control-max-age", b"600"),
    )
