"""What browsers say about where a request comes from: the Host it was sent to, the Origin it was sent from.

A page anywhere can make a browser send requests here. Under a name of its own that it lets point at this machine
(DNS rebinding) the Host gives it away; under this server's name, the Origin does.
"""

import ipaddress
from collections.abc import Iterable

from starlette.types import Scope

from segue.errors import Forbidden, MalformedHttp
from segue.server.admission.request_record import header_values
from segue.server.framing import Header

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_WEB_SCHEMES = ("http", "https")


def is_loopback(host: str) -> bool:
    host = host.removeprefix("[").removesuffix("]").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Hosts:
    """Which names this server answers to. On loopback only those that mean loopback, and those allowed."""

    def __init__(self, bound_to: str, allowed: Iterable[str] = ()) -> None:
        self._allowed = {name.lower() for name in allowed}
        self._on_loopback = is_loopback(bound_to)

    def check(self, scope: Scope) -> None:
        hosts = header_values(scope, b"host")
        if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
            raise MalformedHttp("A request must have one Host header.")
        if not hosts or not (self._on_loopback or self._allowed):
            return
        name = _without_port(hosts[0].decode("latin-1").lower())
        if name not in self._allowed and not is_loopback(name):
            raise Forbidden("This server does not answer to that Host; see --allowed-host.")


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (not port or port.isdigit()) else host


class Origins:
    """Pages of which other origins may use this server: none, unless told.

    `*` is every origin, `localhost` every page of this machine on any port, and a scheme with its
    colon (`vscode-webview:`, `app:`) every origin of that scheme. Anything else is one origin.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(origin.encode() for origin in allowed)

    def check(self, scope: Scope) -> list[Header]:
        """The headers that let the page read the answer. Raises Forbidden."""
        origins = header_values(scope, b"origin")
        if not origins or (len(origins) == 1 and self._is_own(origins[0], scope)):
            return []
        if len(origins) == 1 and (name := self._allows(origins[0])):
            return [
                (b"access-control-allow-origin", name),
                # Browsers do not take these two together, and everybody's cookies are not wanted.
                *([] if name == b"*" else [(b"access-control-allow-credentials", b"true")]),
                (b"access-control-expose-headers", b"*"),
                (b"vary", b"origin"),
            ]
        if scope["method"] not in _SAFE_METHODS or is_preflight(scope):
            raise Forbidden("Pages of that origin may not use this server; see --cors-origin.")
        return []

    def _allows(self, origin: bytes) -> bytes:
        """What the answer says of an origin that is let in; nothing of others."""
        if b"*" in self._allowed:
            return b"*"
        scheme, _, host = origin.decode("latin-1").partition("://")
        is_local = scheme in _WEB_SCHEMES and is_loopback(_without_port(host))
        known = {origin, f"{scheme}:".encode(), *([b"localhost"] if is_local else [])}
        return origin if known & self._allowed else b""

    def _is_own(self, origin: bytes, scope: Scope) -> bool:
        """Whether the page was served from here. The scheme may be a proxy's."""
        return [origin.partition(b"://")[2] or None] == header_values(scope, b"host")


def is_preflight(scope: Scope) -> bool:
    asks = header_values(scope, b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks) and bool(header_values(scope, b"origin"))


def preflight_headers(scope: Scope) -> tuple[Header, ...]:
    """Every header that is asked for may be sent: with credentials, a browser takes `*` as a name."""
    asked = b", ".join(header_values(scope, b"access-control-request-headers"))
    return (
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", asked or b"*"),
        (b"access-control-max-age", b"600"),
    )
