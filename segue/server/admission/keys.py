"""API keys: named, stored and looked up as SHA-256, and reloaded when their file changes."""

import hashlib
import logging
import re
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from starlette.types import Scope

from segue.errors import SetupError, Unauthorized
from segue.server.admission.request_record import header_values
from segue.server.playground import paths as playground

log = logging.getLogger(__name__)

# Open without a key: probes, and the page on which a person enters a key.
PUBLIC_PATHS = frozenset({"/health", "/livez", "/readyz"}) | playground.PUBLIC_PATHS
FORM = "[NAME:]KEY, where KEY may be sha256: and 64 hexadecimal digits"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SHOWN_KEY = re.compile(r"[!-~]{1,512}")
_DIGEST = re.compile(r"sha256:([0-9a-fA-F]{64})")
_LOOK_AGAIN_S = 1.0


@dataclass(frozen=True)
class Key:
    name: str  # the tenant: for limits, fairness, prefix cache and log
    digest: bytes


def parse_key(text: str) -> Key:
    """Parse a key. The error message never contains the text, because it is logged."""
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
    """One key per line; empty lines and lines that begin with # are ignored."""
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SetupError(f"cannot read the API keys in {file}: {why}") from None
    return [parse_key(line) for line in lines if line and not line.startswith("#")]


class Keyring:
    """The valid keys of this server. If it is empty, every request is refused.

    A watched file is read by its own thread: it may be on a slow disk, or be a pipe without a writer.
    """

    def __init__(self, keys: Iterable[Key], file: Path | None = None) -> None:
        self._given = list(keys)
        self._file = file
        self._version = _version(file) if file else ()
        self._num_missed = 0  # checks in a row that found no file
        self._names: dict[bytes, str] = {}
        self._take(read_keys(file) if file else [])

    def watch(self) -> None:
        """Start to reload the file when it changes."""
        if self._file is not None:
            threading.Thread(target=self._watch, name="segue-keys", daemon=True).start()

    def check(self, scope: Scope) -> str:
        """The name of the key a request came with. Raises Unauthorized."""
        names = [self._find(token) for token in _presented(scope)]
        if len(names) == 1 and names[0]:
            return names[0]
        what = "That API key is not valid here" if names else "An API key is needed"
        raise Unauthorized(f"{what}: send it as Authorization: Bearer KEY, or as x-api-key: KEY.")

    def _find(self, token: bytes) -> str:
        """The name of a key; empty if unknown. Looked up by SHA-256, so that timing reveals nothing about the keys."""
        return self._names.get(hashlib.sha256(token).digest(), "")

    def _take(self, keys: Iterable[Key]) -> None:
        self._names = {key.digest: key.name for key in (*self._given, *keys)}

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_AGAIN_S)
            self.look()

    def look(self) -> None:
        """Reload the file if it has changed. If it is missing at two checks in a row, its keys become invalid."""
        if self._file is None:
            return
        version = _version(self._file)
        self._num_missed = 0 if version else self._num_missed + 1
        if version == self._version or self._num_missed == 1:
            return
        self._version = version
        if not version:
            self._take([])
            log.error("%s is gone: its keys do not open this server any more", self._file)
            return
        try:
            self._take(read_keys(self._file))
        except SetupError as error:
            log.error("%s; the keys read before stay in force", error.message)
        else:
            log.info("read the API keys again: %d", len(self._names))


def _version(file: Path) -> tuple[int, ...]:
    """A value that changes with the file; empty if there is no file."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return ()
    except OSError:
        return (-1,)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _presented(scope: Scope) -> list[bytes]:
    """Every key that was sent; more than one is refused, because the tenant would be ambiguous."""
    tokens = list(header_values(scope, b"x-api-key"))
    for value in header_values(scope, b"authorization"):
        scheme, _, token = value.partition(b" ")
        tokens.append(token.strip() if scheme.lower() == b"bearer" else b"")
    return tokens
