"""A vocabulary of bytes, a few words and tags: control tokens, and tokens of text that are written like them."""

from pathlib import Path

from tests.support.models.tiny_gguf import byte_alphabet
from tests.support.models.vocabulary_files import CONTROL, NORMAL, USER_DEFINED, VocabularyFile

_BYTES = [*byte_alphabet().values()]
MERGES = ["a b", "b a", "ab c", "ba b", "c c", "x ab", "Ġ a", "ab Ċ", "t o"]
_WORDS = [merge.replace(" ", "") for merge in MERGES]
_CONTROLS = ["<|end|>", "<think>", "</think>", "<|start|>", "<|say|>"]
_TEXTS = ["<call>", "</call>", "abba"]
TOKENS = [*_BYTES, *_WORDS, *_CONTROLS, *_TEXTS]
END, THINK, THOUGHT, START, SAY = (TOKENS.index(name) for name in _CONTROLS)
CALL, CALLED, ABBA = (TOKENS.index(name) for name in _TEXTS)
AB, BA, ABC, BAB = (TOKENS.index(name) for name in ("ab", "ba", "abc", "bab"))
_OF_BYTE = {byte: token for token, byte in enumerate(byte_alphabet())}


def spelled(*parts: int | str) -> list[int]:
    """Tokens; texts stand for those of their bytes."""
    return [
        token
        for part in parts
        for token in ([part] if isinstance(part, int) else map(_OF_BYTE.__getitem__, part.encode()))
    ]


def write(folder: Path) -> Path:
    kinds = [NORMAL] * (len(_BYTES) + len(_WORDS)) + [CONTROL] * len(_CONTROLS)
    kinds += [USER_DEFINED] * len(_TEXTS)
    values = {"eos_token_id": END, "bos_token_id": END, "add_bos_token": False}
    file = VocabularyFile("gpt2", TOKENS, kinds, merges=MERGES, values=values)
    return file.write(folder / "tagged.gguf")
