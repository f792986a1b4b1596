"""The file of a slot: what its bytes depend on, its tokens, the bytes themselves, and a digest of all that.

    magic · version · length of the header · header · bytes of the slot · BLAKE2b

Numbers have their lowest byte first. A file is checked whole before anything is made of it: one that was cut short,
damaged, or written by another version or for another model is refused, and the message says which.
"""

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
import numpy as np

from segue.engine.seam import SlotKind
from segue.errors import InvalidField

MAGIC = b"SegueSlt"
VERSION = 1
PART = ".segue-*.part"  # files that are being written; no client's name begins with a dot
_PREFIX_BYTES = len(MAGIC) + 8
_DIGEST_BYTES = 32
_MOST_HEADER = 64 << 20  # the tokens of a context of 16 million
_PIECE = 4 << 20
_FIELD = "filename"


class SlotHeader(msgspec.Struct, frozen=True, kw_only=True):
    kind: SlotKind
    owner: str  # a digest of the name of the API key
    adapters: tuple[tuple[str, float], ...]  # digests of their files, and scales
    tokens: bytes  # each as four bytes
    num_bytes: Annotated[int, msgspec.Meta(ge=0)]  # of the slot

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) // 4

    @property
    def token_ids(self) -> list[int]:
        found: list[int] = np.frombuffer(self.tokens, "<u4").tolist()
        return found


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SlotHeader)


def packed_tokens(tokens: Sequence[int]) -> bytes:
    return np.array(tokens, "<u4").tobytes()


def owner_of(tenant: str) -> str:
    return hashlib.sha256(f"key {tenant}".encode()).hexdigest()


# --- writing -------------------------------------------------------------------------------------


def write(
    path: Path,
    header: SlotHeader,
    contents: Iterable[memoryview],
    check_room: Callable[[Path, Path], object] | None = None,
) -> int:
    """The whole file, or none. Returns its size. Raises OSError, and InvalidField if another's file has that name.
    `check_room`: called with the file that is about to be written, as long as it will be, and the one to replace."""
    _check_replaceable(path, header.owner)
    encoded = _encoder.encode(header)
    size = _PREFIX_BYTES + len(encoded) + header.num_bytes + _DIGEST_BYTES
    part = path.parent / PART.replace("*", secrets.token_hex(8))
    try:
        with part.open("xb") as file:
            if check_room is not None:
                file.truncate(size)
                check_room(part, path)
            _write(file, encoded, contents)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    return size


def _write(file: BinaryIO, header: bytes, contents: Iterable[memoryview]) -> None:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    prefix = MAGIC + VERSION.to_bytes(4, "little") + len(header).to_bytes(4, "little")
    pieces: list[bytes | memoryview] = [prefix, header, *contents]
    for piece in pieces:
        digest.update(piece)
        file.write(piece)
    file.write(digest.digest())


def _check_replaceable(path: Path, owner: str) -> None:
    """A client cannot overwrite what is no slot of its own: a model, or a file of another API key."""
    if not os.path.lexists(path):
        return
    with contextlib.suppress(InvalidField), SlotReader(path) as reader:
        if reader.header.owner == owner:
            return
    raise InvalidField(
        f"{_FIELD}: there is a file of that name, which is no slot that you saved: choose another",
        _FIELD,
    )


# --- reading -------------------------------------------------------------------------------------


class SlotReader:
    """An open file of a slot. What is wrong with it is an InvalidField."""

    def __init__(self, path: Path) -> None:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise FileNotFoundError  # opening a pipe would wait for who writes to it
            self._file = path.open("rb")
        except OSError:
            raise InvalidField(f"{_FIELD}: there is no saved slot of that name", _FIELD) from None
        try:
            self.size = os.fstat(self._file.fileno()).st_size
            self.header, self._begin = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "SlotReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def check(self) -> None:
        """Raises InvalidField unless the file is whole."""
        scratch = memoryview(bytearray(min(_PIECE, self.header.num_bytes)))
        left = range(0, self.header.num_bytes, _PIECE)
        self.fill(scratch[: self.header.num_bytes - start] for start in left)

    def fill(self, into: Iterable[memoryview]) -> None:
        """Write the slot's bytes there. Raises InvalidField if the file is not whole: then they are worth nothing."""
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._file.seek(0)
        digest.update(self._read(self._begin))
        for place in into:
            for start in range(0, len(place), _PIECE):
                piece = place[start : start + _PIECE]
                if self._file.readinto(piece) < len(piece):
                    raise _damaged()
                digest.update(piece)
        if self._file.read() != digest.digest():
            raise _damaged()

    def _read_header(self) -> tuple[SlotHeader, int]:
        """And where the slot's bytes begin."""
        prefix = self._file.read(_PREFIX_BYTES)
        if not prefix.startswith(MAGIC):
            raise InvalidField(f"{_FIELD}: that file is no saved slot", _FIELD)
        if len(prefix) < _PREFIX_BYTES:
            raise _damaged()
        version, length = np.frombuffer(prefix, "<u4", offset=len(MAGIC)).tolist()
        if version != VERSION:
            raise InvalidField(
                f"{_FIELD}: that slot was saved by another version, as format {version}, not {VERSION}",
                _FIELD,
            )
        if length > min(_MOST_HEADER, self.size):
            raise _damaged()
        try:
            header = _decoder.decode(self._read(length))
        except (msgspec.MsgspecError, ValueError):  # the latter of bytes that are not UTF-8
            raise _damaged() from None
        begin = _PREFIX_BYTES + length
        if len(header.tokens) % 4 or self.size != begin + header.num_bytes + _DIGEST_BYTES:
            raise _damaged()
        return header, begin

    def _read(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise _damaged()
        return data


def _damaged() -> InvalidField:
    return InvalidField(f"{_FIELD}: that file is damaged, or was cut short", _FIELD)
