"""What a model's GGUF files say of it, as a small value that travels to every server process."""

import struct
from pathlib import Path

from segue.models.gguf import GgufHeader, Value, header
from segue.models.gguf.files import modified
from segue.types import Origin

_TEMPLATE = "tokenizer.chat_template"  # long, and told on its own
_LONGEST_TEXT = 16 << 10  # characters: licences are shorter


def gguf_origin(path: str | Path, digest: str = "", read: GgufHeader | None = None) -> Origin:
    """Of the model at this path. `read`: its header, if it was read already. Raises ModelUnavailable."""
    about = header(path) if read is None else read
    metadata: dict[str, Value | None] = {
        key: _short(value) if isinstance(value, float) else value
        for key, value in about.metadata.items()
        if _is_told(key, value)
    }
    return Origin(
        num_bytes=about.num_bytes,
        digest=digest,
        modified=modified(about),
        metadata=metadata | dict.fromkeys(about.array_lengths),
    )


def _short(value: float) -> float:
    """0.00001 instead of 9.999999747378752e-06, which is the same number in 32 bits."""
    shortest = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((each for each in shortest if _in_32_bits(each) == value), value)


def _in_32_bits(value: float) -> float | None:
    """None if it is too large for 32."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    return float(found)


def _is_told(key: str, value: Value) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and not key.startswith(_TEMPLATE)
    return True
