"""The tokenizer of a Hugging Face folder as the engine's Vocab. Token bytes follow from the tokenizer's decoder."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from segue.engine.seam import FimTokens
from segue.errors import Incompatible
from segue.models.vocabulary.byte_spelling import is_spelled, read

# Spellings of FIM tokens, one row per family: prefix, suffix, middle, pad, repository, file separator.
_FIM = (
    ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<fim_pad>", "<repo_name>", "<file_sep>"),
    ("<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>", "", ""),
    ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", "", "", ""),
    ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", "", ""),
    ("▁<PRE>", "▁<SUF>", "▁<MID>", "", "", ""),
    ("<PRE>", "<SUF>", "<MID>", "", "", ""),
    ("[PREFIX]", "[SUFFIX]", "", "", "", ""),
)  # fmt: skip

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class HfVocab:
    def __init__(self, tokenizer: Any, end_tokens: Iterable[int]) -> None:
        """`tokenizer`: of transformers, with a backend of the tokenizers library. Raises Incompatible."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise Incompatible("this model's tokenizer is not one of the tokenizers library")
        copies = [type(backend).from_str(backend.to_str()) for _ in range(2)]
        for copy in copies:
            copy.no_padding()
            copy.no_truncation()
        self._tokenizer, self._plain = copies
        self._plain.encode_special_tokens = True  # special tokens spelled out in a text stay text
        self._ids: dict[str, int] = self._tokenizer.get_vocab(True)
        self.size = max(self._ids.values(), default=-1) + 1
        added = self._tokenizer.get_added_tokens_decoder()
        self._controls = frozenset(token for token, about in added.items() if about.special)
        self._pieces = self._read_pieces({t: about.content for t, about in added.items()})
        self.bos: int | None = tokenizer.bos_token_id
        self.eos: int | None = tokenizer.eos_token_id
        own = () if self.eos is None else (self.eos,)
        self.end_tokens = frozenset((*own, *end_tokens))
        self.adds_bos = self.bos is not None and self.tokenize("a", True, True)[:1] == [self.bos]
        self.fim = _fim_tokens(self._ids)

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        by = self._tokenizer if parse_special else self._plain
        # The tokenizer, written in Rust, rejects lone surrogates.
        clean = text.encode("utf-8", "replace").decode()
        ids: list[int] = by.encode(clean, add_special_tokens=add_special).ids
        return ids

    def piece(self, token: int) -> bytes:
        """The bytes of a token. Rows of logits may be wider than the vocabulary: ids beyond it have no bytes."""
        return self._pieces[token] if 0 <= token < self.size else b""

    def is_control(self, token: int) -> bool:
        return token in self._controls

    def close(self) -> None:
        pass

    def _read_pieces(self, added: dict[int, str]) -> list[bytes]:
        read = _reader(json.loads(self._tokenizer.to_str()).get("decoder"))
        pieces = [b""] * self.size
        for spelling, token in self._ids.items():
            pieces[token] = added[token].encode() if token in added else read(spelling)
        return pieces


def _fim_tokens(ids: dict[str, int]) -> FimTokens | None:
    for prefix, suffix, middle, pad, repo, file_sep in _FIM:
        needed = [name for name in (prefix, suffix, middle) if name]
        if all(name in ids for name in needed):
            return FimTokens(
                ids[prefix],
                ids[suffix],
                ids.get(middle),
                ids.get(pad),
                ids.get(repo),
                ids.get(file_sep),
            )
    return None


# --- spellings ------------------------------------------------------------------------------------


def _reader(decoder: Any) -> Callable[[str], bytes]:
    kinds = {part.get("type"): part for part in _parts(decoder)}
    if "ByteLevel" in kinds:
        return _byte_level
    if "Metaspace" in kinds:
        mark = kinds["Metaspace"].get("replacement", "▁")
        return lambda spelling: _with_bytes(spelling, mark)
    if "ByteFallback" in kinds or "Replace" in kinds:
        return lambda spelling: _with_bytes(spelling, "▁")
    named = ", ".join(sorted(map(str, kinds))) or "nothing"
    raise Incompatible(f"this model's tokenizer is not understood: it decodes by {named}")


def _parts(decoder: Any) -> list[dict[str, Any]]:
    if not decoder:
        return []
    if decoder.get("type") == "Sequence":
        return [part for inner in decoder["decoders"] for part in _parts(inner)]
    return [decoder]


def _byte_level(spelling: str) -> bytes:
    return read(spelling) if is_spelled(spelling) else spelling.encode()


def _with_bytes(spelling: str, mark: str) -> bytes:
    """SentencePiece's: a mark for the space, <0x0A> for a byte that has no token of its own."""
    found = _BYTE.fullmatch(spelling)
    if found is not None:
        return bytes.fromhex(found[1])
    return spelling.replace(mark, " ").encode()
