"""What a GGUF file says of itself, as a small value that travels to every server process."""

from pathlib import Path

from segue.models.gguf import GgufHeader, Value, header
from segue.types import Origin

_TEMPLATE = "tokenizer.chat_template"  # long, and told on its own
_LONGEST_TEXT = 16 << 10  # characters: licences are shorter


def gguf_origin(path: str | Path, digest: str = "", read: GgufHeader | None = None) -> Origin:
    """Of this file. `read`: its header, if it was read already. Raises ModelUnavailable."""
    about = header(path) if read is None else read
    metadata: dict[str, Value | None] = {
        key: value for key, value in about.metadata.items() if _is_told(key, value)
    }
    return Origin(
        num_bytes=about.num_bytes,
        digest=digest,
        modified=Path(path).stat().st_mtime,
        metadata=metadata | dict.fromkeys(about.array_lengths),
    )


def _is_told(key: str, value: Value) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and not key.startswith(_TEMPLATE)
    return True
