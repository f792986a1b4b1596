"""The vocabulary of a GGUF file without llama.cpp, and other facts from its header. Loads no weights."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from segue.errors import Incompatible, ModelUnavailable
from segue.models import gguf
from segue.models.gguf import GgufHeader
from segue.models.names import shown_name
from segue.models.vocabulary.byte_pair import BytePair
from segue.models.vocabulary.fim import find_fim, with_separators
from segue.models.vocabulary.fragments import Special, fragments, ordered
from segue.models.vocabulary.longest_match import LongestMatch, incomplete, unescaped
from segue.models.vocabulary.pieces import pieces
from segue.models.vocabulary.sentence_piece import SentencePiece
from segue.models.vocabulary.special_tokens import (
    find_roles,
    is_found_in_texts,
    strips,
    wrong_words,
)
from segue.models.vocabulary.spelling import Spelling
from segue.models.vocabulary.tokens import (
    CONTROL,
    MERGES,
    TOKENS,
    UNKNOWN,
    USER_DEFINED,
    Tokens,
    read_tokens,
)
from segue.models.vocabulary.words.pre_tokenizers import PRE_TOKENIZERS, PreTokenizer

_MODEL, _PRE = "tokenizer.ggml.model", "tokenizer.ggml.pre"
_NONE = ("none", "no_vocab")
_NOT_TEXT = (CONTROL, UNKNOWN)
_WITHOUT_MERGES = "kimi-k2"
_LONGEST_MATCH = "rwkv"
# tokenizer.ggml.model → BOS and EOS where the file does not name them
_USUAL: dict[str, tuple[int | None, int | None]] = {
    "llama": (1, 2),
    "gpt2": (11, 11),
    "gemma4": (None, None),
    "rwkv": (None, None),
}


def unsupported(header: GgufHeader) -> str | None:
    """Why the vocabulary of this file cannot be read without llama.cpp, or None if it can."""
    model = header.metadata.get(_MODEL)
    if model in _NONE or model is None:
        return "it holds no vocabulary, so text cannot become tokens"
    if model not in _USUAL:
        return f"only llama.cpp knows its kind of vocabulary ({model})"
    if model == "gpt2" and _pre(header) not in PRE_TOKENIZERS:
        return f"only llama.cpp may know how it splits texts ({_pre(header)})"
    return None


class GgufVocab:
    """Implements seam.Vocab, with the same answers as runners.llama.vocab.LlamaVocab."""

    def __init__(self, path: str | Path):
        """Raises Incompatible and ModelUnavailable."""
        self.file = shown_name(path)
        self._header = header = gguf.header(path)
        if wrong := unsupported(header):
            raise Incompatible(f"{path} cannot be served here: {wrong}")
        pre = _pre_tokenizer(header)
        needed = (TOKENS,) if pre is None or _pre(header) == _WITHOUT_MERGES else (TOKENS, MERGES)
        for key in needed:
            if key not in header.array_lengths:
                raise ModelUnavailable(f"{path} has no {key}")
        tokens = read_tokens(path, header)
        if wrong := wrong_words(header.metadata, header.array_lengths):
            raise ModelUnavailable(f"{path} has a vocabulary that cannot be used: {wrong}")
        ids = {text: token for token, text in enumerate(tokens.texts)}
        bos, eos = _USUAL[str(header.metadata[_MODEL])]
        usual = (bos if pre is None or pre.has_usual_bos else None, eos)
        roles = find_roles(header.metadata, ids, tokens.kinds, usual)
        self.size, self.bos, self.eos = len(ids), roles.bos, roles.eos
        is_escaped = header.metadata[_MODEL] == _LONGEST_MATCH
        self._pieces = (
            [unescaped(text.encode(errors="surrogateescape")) for text in tokens.texts]
            if is_escaped
            else pieces(tokens.texts, roles.kinds, pre is not None and pre.is_byte_level)
        )
        self._controls = frozenset(
            token for token, kind in enumerate(roles.kinds[: self.size]) if kind in _NOT_TEXT
        )
        controls = {self._pieces[token]: token for token in self._controls}
        self.fim = find_fim(roles.fim, controls, self.metadata("general.name") or "")
        self.end_tokens = with_separators(roles.ends, self.fim)
        self._find_special(tokens, ids, roles.kinds)
        self._spelling: Spelling | None = None
        self._tokens: Callable[[str], list[int]]
        if is_escaped:
            self._set_longest_match(path)
            return
        self._set_frame(path, pre)
        self._spelling = Spelling(self._pieces) if pre is None else None
        self._tokens = (
            SentencePiece(ids, tokens.scores) if pre is None else BytePair(ids, tokens.merges, pre)
        )

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        # A lone surrogate has no UTF-8; everything else passes through as it is.
        text = text.encode(errors="replace").decode()
        if self._spelling is not None:
            self._spelling.check(text)
        tokens = [*self._opening] if add_special else []
        is_after_special = True
        for fragment in fragments(text, self._special if parse_special else self._user_defined):
            if isinstance(fragment, int):
                tokens.append(fragment)
            else:
                has_prefix = self._has_space_prefix and is_after_special
                tokens += self._tokens(f" {fragment}" if has_prefix else fragment)
            is_after_special = isinstance(fragment, int)
        return [*tokens, *self._closing] if add_special else tokens

    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    def is_control(self, token: int) -> bool:
        return token in self._controls

    def metadata(self, key: str) -> str | None:
        """A scalar of the GGUF as text. "{arch}" in the key stands for the architecture."""
        value = self._header.metadata.get(key.replace("{arch}", self._header.architecture))
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:f}" if isinstance(value, float) else None if value is None else str(value)

    @property
    def num_params(self) -> int:
        return self._header.num_params

    @property
    def size_bytes(self) -> int:
        """The size of the weights."""
        return sum(tensor.num_bytes for tensor in self._header.tensors)

    @property
    def chat_template(self) -> str | None:
        return self.metadata("tokenizer.chat_template")

    def close(self) -> None:
        pass

    def _find_special(self, tokens: Tokens, ids: Mapping[str, int], kinds: Sequence[int]) -> None:
        found = [token for token in range(self.size) if is_found_in_texts(kinds[token])]
        left, right = strips(self._header.metadata, ids, found)
        self._special = ordered(
            Special(token, tokens.texts[token], token in left, token in right) for token in found
        )
        # These are found in texts that are not parsed for special tokens too.
        self._user_defined = [
            special for special in self._special if kinds[special.token] == USER_DEFINED
        ]

    def _set_frame(self, path: str | Path, pre: PreTokenizer | None) -> None:
        """What a text begins and ends with."""
        self.adds_bos = self._says("add_bos_token", pre is None or pre.adds_bos)
        if pre is not None and pre.always_adds_bos:
            self.adds_bos = True
        self._has_space_prefix = pre is None and self._says("add_space_prefix", True)
        self._opening = _added(path, "BOS", self.bos, self.adds_bos)
        self._closing = _added(path, "EOS", self.eos, self._says("add_eos_token", False))

    def _set_longest_match(self, path: str | Path) -> None:
        """Nothing is added to texts, whatever the file says."""
        if wrong := incomplete(self._pieces):
            raise ModelUnavailable(f"{path} has a vocabulary that cannot be used: {wrong}")
        self.adds_bos, self._has_space_prefix = self._says("add_bos_token", False), False
        self._opening, self._closing = list[int](), list[int]()
        told = self._header.metadata.get("tokenizer.ggml.unknown_token_id")
        unknown = told if isinstance(told, int) and told in range(self.size) else None
        self._tokens = LongestMatch(self._pieces, unknown)

    def _says(self, key: str, default: bool) -> bool:
        value = self._header.metadata.get(f"tokenizer.ggml.{key}")
        return value if isinstance(value, bool) else default


def _added(path: str | Path, name: str, token: int | None, is_added: bool) -> list[int]:
    if not is_added:
        return []
    if token is None:
        raise ModelUnavailable(f"{path} adds {name} to texts, but its vocabulary has none")
    return [token]


def _pre(header: GgufHeader) -> str:
    """The name by which a vocabulary of merges splits texts."""
    model = header.metadata.get(_MODEL)
    return "gemma4" if model == "gemma4" else str(header.metadata.get(_PRE, ""))


def _pre_tokenizer(header: GgufHeader) -> PreTokenizer | None:
    """None: it does not split, but goes by scores or by the longest match."""
    is_whole = header.metadata[_MODEL] in ("llama", _LONGEST_MATCH)
    return None if is_whole else PRE_TOKENIZERS[_pre(header)]
