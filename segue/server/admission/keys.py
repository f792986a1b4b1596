"""API keys: named, kept only as SHA-256, compared in constant time, and read again when their file changes."""

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Scope

from segue.errors import SetupError, Unauthorized
from segue.server.admission.request_record import header_values
from segue.server.playground import paths as playground

log = logging.getLogger(__name__)

# What is asked by those that have no key: probes, and people who have yet to enter theirs.
PUBLIC_PATHS = frozenset({"/health", "/livez", "/readyz"}) | playground.PUBLIC_PATHS
FORM = "[NAME:]KEY, where KEY may be sha256: and 64 hexadecimal digits"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHOWN_KEY = re.compile(r"[!-~]{1,512}")
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True)
class Key:
    name: str  # the tenant: for limits, turns, cached prefixes and the log
    digest: bytes


def parse_key(text: str) -> Key:
    """The message never repeats the text: it goes to a log."""
    name, colon, rest = text.partition(":")
    if not colon or (name == "sha256" and _DIGEST.fullmatch(text)):
        name, rest = "", text
    found = _DIGEST.fullmatch(rest)
    if (name or not found) and not _SHOWN_KEY.fullmatch(rest):
        raise SetupError(f"an API key must be {FORM}, in printable characters without spaces")
    digest = bytes.fromhex(found[1]) if found else hashlib.sha256(rest.encode()).digest()
    if name and not _NAME.fullmatch(name):
        raise SetupError("the name of an API key must be 1 to 64 letters, digits, . _ or -")
    return Key(name or f"key-{digest.hex()[:8]}", digest)


def read_keys(file: Path) -> list[Key]:
    """A key a line; empty lines and those that begin with # do not count."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise SetupError(f"cannot read the API keys in {file}: {error}") from None
    return [parse_key(line) for line in lines if line and not line.startswith("#")]


class Keyring:
    """The keys that open this server. With none in it, nothing does."""

    def __init__(
        self,
        keys: Iterable[Key] = (),
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = list(keys)
        self._file = file
        self._clock = clock
        self._looked_at = clock()
        self._version = self._file_version()
        self._keys = self._given + (read_keys(file) if file else [])

    def check(self, scope: Scope) -> str:
        """The name of the key a request came with. Raises Unauthorized."""
        self._look_again()
        names = [self._find(token) for token in _presented(scope)]
        if len(names) == 1 and names[0]:
            return names[0]
        what = "That API key is not valid here" if names else "An API key is needed"
        raise Unauthorized(f"{what}: send it as Authorization: Bearer KEY, or as x-api-key: KEY.")

    def _find(self, token: bytes) -> str:
        """Every key is compared, so that the time says nothing about which one is near."""
        digest, name = hashlib.sha256(token).digest(), ""
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                name = key.name
        return name

    def _look_again(self) -> None:
        now = self._clock()
        if self._file is None or now - self._looked_at < _LOOK_AGAIN_S:
            return
        self._looked_at = now
        version = self._file_version()
        if version == self._version:
            return
        self._version = version
        try:
            self._keys = self._given + read_keys(self._file)
        except SetupError as error:
            log.error("%s; the keys read before stay in force", error.message)
        else:
            log.info("read the API keys again: %d", len(self._keys))

    def _file_version(self) -> tuple[int, ...]:
        try:
            stat = self._file.stat() if self._file else None
        except OSError:
            return ()
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino) if stat else ()


def _presented(scope: Scope) -> list[bytes]:
    """Every key sent; more than one is refused, as it is not clear who asks."""
    tokens = list(header_values(scope, b"x-api-key"))
    for value in header_values(scope, b"authorization"):
        scheme, _, token = value.partition(b" ")
        tokens.append(token.strip() if scheme.lower() == b"bearer" else b"")
    return tokens
