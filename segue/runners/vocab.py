"""The vocabulary of a GGUF file: llama.cpp's, or ours where its functions are out of reach, with the same tokens."""

import logging
from pathlib import Path

from segue.errors import Incompatible
from segue.models.gguf import GgufHeader
from segue.models.vocabulary.gguf_vocab import GgufVocab, unsupported
from segue.runners.llama import c_api
from segue.runners.llama.vocab import LlamaVocab

FileVocab = LlamaVocab | GgufVocab

log = logging.getLogger("segue")


def llama_obstacle() -> str:
    """Why llama.cpp's library cannot be used here; empty if it can."""
    try:
        c_api.load()
    except Incompatible as error:
        return str(error)
    return ""


def open_vocab(path: str | Path) -> FileVocab:
    """Raises Incompatible and ModelUnavailable."""
    if wrong := llama_obstacle():
        log.info("%s: the tokenizer is Segue's own: %s", path, wrong)
        return GgufVocab(path)
    return LlamaVocab(path)


def vocab_obstacle(header: GgufHeader) -> str | None:
    """Why the texts of this file's model cannot become tokens here, or None."""
    wrong = unsupported(header)
    if wrong is None or not (missing := llama_obstacle()):
        return None
    return f"{wrong}, which cannot be used here: {missing}"
