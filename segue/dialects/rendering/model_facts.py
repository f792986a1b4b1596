"""A model's facts in Ollama's layout, which llama.cpp's list of models has too."""

import hashlib
from typing import Any

from segue.dialects.base import Card
from segue.types import ModelInfo


def short_count(count: int) -> str:
    """As Ollama writes a number of parameters: 8B, 7.6B, 134.52M, 512K. Empty if it is not known."""
    for size, unit, digits in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= size:
            return f"{count / size:.{digits if count % size else 0}f}{unit}"
    return f"{count}" if count else ""


def details(info: ModelInfo | None, parent: str) -> dict[str, Any]:
    """Every text is there, if empty: clients in typed languages do not read an answer without them."""
    if info is None:
        return {
            "parent_model": parent,
            "format": "gguf",
            "family": "",
            "families": None,
            "parameter_size": "",
            "quantization_level": "",
        }
    return {
        "parent_model": parent,
        "format": info.origin.format,
        "family": info.architecture,
        "families": [info.architecture],
        "parameter_size": short_count(info.num_params),
        "quantization_level": info.quantization,
    }


def lengths(info: ModelInfo | None) -> dict[str, int]:
    """Those that are known: Ollama's list of models has them among the details, and its other pages do not."""
    if info is None:
        return {}
    known = {
        "context_length": info.context_length,
        "embedding_length": embedding_length(info),
    }
    return {name: value for name, value in known.items() if value}


def embedding_length(info: ModelInfo) -> int:
    """0 if it is not known."""
    found = info.origin.metadata.get(f"{info.architecture}.embedding_length")
    return found if isinstance(found, int) else 0


def capabilities(info: ModelInfo | None) -> list[str]:
    return ["completion", "insert"] if info and info.has_fim else ["completion"]


def digest(card: Card) -> str:
    """The SHA-256 of the file; where nobody computed it, a text that differs from model to model."""
    info = card.known
    if info is None:
        known: tuple[Any, ...] = (card.name,)
    elif info.origin.digest:
        return info.origin.digest
    else:
        known = (info.name, info.size_bytes, info.quantization)
    return hashlib.sha256(repr(known).encode()).hexdigest()


def modified(card: Card) -> float:
    """The time of the file, in seconds since 1970; without one, that of the server's start."""
    return (card.known.origin.modified if card.known else 0.0) or card.created


def file_size(card: Card) -> int:
    """In bytes; that of the weights where there is no one file, and 0 if it is not known."""
    return card.known.file_bytes if card.known else 0
