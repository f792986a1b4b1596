"""The address by which a client reached this server, for examples that it may copy."""

import re

from starlette.types import Scope

from segue.server.admission.request_record import header_values

# Stricter than what a URL may have: it is shown in commands for a shell and in code.
_HOST = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.IGNORECASE)


def own_address(scope: Scope) -> str:
    """Scheme, host and port, without a slash at the end. A Host that is none is not repeated; then it is where the
    server listens."""
    host = _only(scope, b"host")
    if not _HOST.fullmatch(host):
        host = _listening(scope)
    return f"{'https' if _is_secure(scope, host) else scope['scheme']}://{host}"


def _is_secure(scope: Scope, host: str) -> bool:
    """Whether the client speaks TLS to a proxy before this server: as the proxy says, or else the page that asks."""
    own = f"https://{host}"
    return (
        _only(scope, b"x-forwarded-proto").lower() == "https"
        or _only(scope, b"origin") == own
        or _only(scope, b"referer").startswith(f"{own}/")
    )


def _only(scope: Scope, name: bytes) -> str:
    values = header_values(scope, name)
    return values[0].decode("latin-1") if len(values) == 1 else ""


def _listening(scope: Scope) -> str:
    host, port = scope.get("server") or ("localhost", None)
    if port is None:  # a Unix socket, whose path is no host
        return "localhost"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
