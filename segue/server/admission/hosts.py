"""The Host header: which names this server accepts, against DNS rebinding.

A web page can make its own domain resolve to this machine; a browser then treats this server as the page's own. The
Host header still contains the page's domain, so such requests are refused. An address cannot be rebound: probes and
scrapers that know this server by its address are answered.
"""

import ipaddress
import re
from collections.abc import Iterable

from starlette.types import Scope

from segue.errors import Forbidden, MalformedHttp, SetupError
from segue.server.admission.request_record import header_values

_NAME = re.compile(r"[^/:*\s]+|\[[0-9a-fA-F:.]+\]")


def is_loopback(host: str) -> bool:
    name = host.lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


class Hosts:
    """The Host names that this server accepts. On loopback, only those of loopback, those allowed, and addresses."""

    def __init__(self, bound_to: str, allowed: Iterable[str] = ()) -> None:
        """Raises SetupError for what is no name: no Host would ever be equal to it."""
        allowed = list(allowed)
        for name in allowed:
            if not _NAME.fullmatch(name):
                wanted = "a name without scheme and port, such as example.org"
                raise SetupError(f"--allowed-host must be {wanted}, not {name!r}")
        self._allowed = {name.lower() for name in allowed}
        self._on_loopback = is_loopback(bound_to)

    def check(self, scope: Scope) -> None:
        hosts = header_values(scope, b"host")
        if len(hosts) > 1 or (not hosts and scope["http_version"] != "1.0"):
            raise MalformedHttp("A request must have one Host header.")
        if not hosts or not (self._on_loopback or self._allowed):
            return
        name = without_port(hosts[0].decode("latin-1").lower())
        if not (name in self._allowed or is_loopback(name) or _address(name)):
            raise Forbidden("This server does not answer to that Host; see --allowed-host.")


def without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (not port or port.isdigit()) else host
