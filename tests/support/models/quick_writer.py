"""gguf's writer, which packs lists item by item: those of tokens took a fifth of the time of tests of vocabularies."""

import struct
from typing import Any

import gguf
import numpy as np

ARRAY, TEXT, WHOLE = (
    gguf.GGUFValueType.ARRAY,
    gguf.GGUFValueType.STRING,
    gguf.GGUFValueType.INT32,
)


class Writer(gguf.GGUFWriter):
    """Writes the same bytes."""

    def _pack_val(self, val: Any, vtype: Any, add_vtype: bool, sub_type: Any = None) -> bytes:
        packed = _packed(val) if vtype == ARRAY and sub_type is None else None
        if packed is None or self.endianess != gguf.GGUFEndian.LITTLE:
            return super()._pack_val(val, vtype, add_vtype, sub_type)
        kind, items = packed
        head = struct.pack("<I", vtype) if add_vtype else b""
        return head + struct.pack("<IQ", kind, len(val)) + items


def _packed(items: Any) -> tuple[int, bytes] | None:
    """The type of the items and their bytes; None if they are neither texts nor whole numbers."""
    kinds = {*map(type, items)} if isinstance(items, list) else set()
    if kinds and kinds <= {str, bytes}:
        texts = [text.encode() if isinstance(text, str) else text for text in items]
        return TEXT, b"".join(struct.pack("<Q", len(text)) + text for text in texts)
    if kinds and kinds <= {int, gguf.TokenType}:
        return WHOLE, np.array(items, "<i4").tobytes()
    return None
