"""The vocabulary of a GGUF by llama.cpp, and other facts from its metadata. Loads no weights."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Capabilities, FimTokens
from segue.errors import Incompatible, ModelUnavailable, Unsupported
from segue.fingerprint import unpromised
from segue.models import token_lists
from segue.models.gguf.types import FILE_TYPES
from segue.models.names import shown_name
from segue.models.vocabulary.fim import find_fim, with_separators
from segue.models.vocabulary.gguf_vocab import GgufVocab
from segue.models.vocabulary.spelling import Spelling
from segue.runners.llama import c_api
from segue.runners.llama.special_blocks import SpecialBlocks
from segue.types import ModelInfo, Origin

# role → llama.cpp's function
FIM_ROLES = {
    "prefix": "llama_vocab_fim_pre",
    "suffix": "llama_vocab_fim_suf",
    "middle": "llama_vocab_fim_mid",
    "pad": "llama_vocab_fim_pad",
    "repo": "llama_vocab_fim_rep",
    "file_sep": "llama_vocab_fim_sep",
}
NOT_TEXT = c_api.ATTR_CONTROL | c_api.ATTR_UNKNOWN  # what llama.cpp leaves out of texts
_GUESSED = 1024  # general.file_type of a file that does not say


class LlamaVocab:
    """Implements seam.Vocab."""

    def __init__(self, path: str | Path):
        self.file = shown_name(path)
        self._api = c_api.load()
        if wrong := token_lists.damage(path):
            raise ModelUnavailable(f"{path} has a vocabulary that cannot be used: {wrong}")
        self._model = c_api.open_model(str(path), vocab_only=True)
        self._vocab = self._api.llama_model_get_vocab(self._model)
        if self._api.llama_vocab_type(self._vocab) == c_api.NO_VOCAB:
            self.close()
            raise Incompatible(f"{path} holds no vocabulary, so text cannot become tokens.")
        self.size = int(self._api.llama_vocab_n_tokens(self._vocab))
        self.bos = _known(self._api.llama_vocab_bos(self._vocab))
        self.eos = _known(self._api.llama_vocab_eos(self._vocab))
        self.adds_bos = bool(self._api.llama_vocab_get_add_bos(self._vocab))
        self._check_frame(path)
        self._pieces = self._read_pieces()
        kind = self._api.llama_vocab_type(self._vocab)
        self._spelling = Spelling(self._pieces) if kind == c_api.SENTENCEPIECE else None
        attributes = c_api.quick().llama_vocab_get_attr
        self._controls = frozenset(
            token for token in range(self.size) if attributes(self._vocab, token) & NOT_TEXT
        )
        self.fim = self._find_fim()
        self.end_tokens = self._find_end_tokens()
        texts = (self._pieces[token].decode(errors="replace") for token in self._controls)
        ends_texts = len(self._tokenize("", True, False)) > int(self.adds_bos)
        self._blocks = SpecialBlocks(() if ends_texts else texts)

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        if not parse_special:
            return self._tokenize(text, add_special, False)
        tokens: list[int] = []
        for index, block in enumerate(self._blocks.split(text)):
            tokens += self._tokenize(block, add_special and index == 0, True)
        return tokens

    def _tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        if self._spelling is not None:
            self._spelling.check(text)
        # A lone surrogate has no UTF-8; everything else passes through as it is.
        data = text.encode(errors="replace")
        tokens = np.empty(len(data) + 8, np.int32)
        for _ in range(2):  # the second time with the size that the first returned
            count = self._api.llama_tokenize(
                self._vocab,
                data,
                len(data),
                tokens.ctypes.data,
                len(tokens),
                add_special,
                parse_special,
            )
            if count >= 0:
                return self._checked(tokens[:count])
            tokens = np.empty(-count, np.int32)
        raise RuntimeError(f"llama.cpp cannot tokenize {len(data)} bytes of text")

    def _checked(self, tokens: NDArray[np.int32]) -> list[int]:
        """The ids. Some vocabularies have none for what they do not know, where llama.cpp gives -1."""
        if tokens.size and tokens.min() < 0:
            raise Unsupported("the model's vocabulary has no tokens for some of this text")
        return list(map(int, tokens))

    def piece(self, token: int) -> bytes:
        return self._pieces[token]

    def is_control(self, token: int) -> bool:
        return token in self._controls

    def metadata(self, key: str) -> str | None:
        """A scalar of the GGUF as text. "{arch}" in the key stands for the architecture."""
        architecture = c_api.metadata(self._model, "general.architecture") or ""
        return c_api.metadata(self._model, key.replace("{arch}", architecture))

    @property
    def num_params(self) -> int:
        return int(self._api.llama_model_n_params(self._model))

    @property
    def size_bytes(self) -> int:
        """The size of the weights."""
        return int(self._api.llama_model_size(self._model))

    @property
    def chat_template(self) -> str | None:
        template: bytes | None = self._api.llama_model_chat_template(self._model, None)
        return None if template is None else template.decode(errors="replace")

    def close(self) -> None:
        if self._model:
            self._api.llama_model_free(self._model)
            self._model = self._vocab = 0

    def _check_frame(self, path: str | Path) -> None:
        """llama.cpp would end the process at the first text, if it lacks what it adds to texts."""
        adds_eos = bool(self._api.llama_vocab_get_add_eos(self._vocab))
        for name, token, is_added in (
            ("BOS", self.bos, self.adds_bos),
            ("EOS", self.eos, adds_eos),
        ):
            if is_added and token is None:
                self.close()
                raise ModelUnavailable(f"{path} adds {name} to texts, but its vocabulary has none")

    def _read_pieces(self) -> list[bytes]:
        spell = c_api.quick().llama_token_to_piece
        pieces: list[bytes] = []
        buffer: Any = ctypes.create_string_buffer(256)
        for token in range(self.size):
            length = spell(self._vocab, token, buffer, len(buffer), 0, True)
            if length < 0:  # too small: −length is the size needed
                buffer = ctypes.create_string_buffer(-length)
                length = spell(self._vocab, token, buffer, len(buffer), 0, True)
            pieces.append(buffer[:length])
        return pieces

    def _find_fim(self) -> FimTokens | None:
        found = {
            role: _known(getattr(self._api, finder)(self._vocab))
            for role, finder in FIM_ROLES.items()
        }
        controls = {self._pieces[token]: token for token in self._controls}
        return find_fim(found, controls, self.metadata("general.name") or "")

    def _find_end_tokens(self) -> frozenset[int]:
        is_end = c_api.quick().llama_vocab_is_eog
        ends = [token for token in range(self.size) if is_end(self._vocab, token)]
        return with_separators(ends, self.fim)


def _known(token: int) -> int | None:
    return None if token == c_api.NO_TOKEN else token


def model_info(
    name: str,
    runner: str,
    vocab: LlamaVocab | GgufVocab,
    capabilities: Capabilities,
    fingerprint: str | None = None,
    *,
    origin: Origin | None = None,
) -> ModelInfo:
    """What is served, for any runner of a GGUF file. Without a fingerprint answers vary."""
    return ModelInfo(
        name=name,
        architecture=vocab.metadata("general.architecture") or "unknown",
        runner=runner,
        context_length=capabilities.context_length,
        vocab_size=capabilities.vocab_size,
        num_params=vocab.num_params,
        size_bytes=vocab.size_bytes,
        quantization=_quantization(vocab),
        has_fim=vocab.fim is not None,
        deterministic=capabilities.deterministic,
        fingerprint=fingerprint or unpromised(runner),
        kv_tokens=capabilities.num_cells,
        kv_block=capabilities.cells_per_block,
        num_states=capabilities.num_slots if capabilities.state_bytes else 0,
        state_bytes=capabilities.state_bytes,
        train_context=_whole(vocab.metadata("{arch}.context_length"), 0),
        chat_template=vocab.chat_template,
        bos_token="" if vocab.bos is None else vocab.piece(vocab.bos).decode(errors="replace"),
        eos_token="" if vocab.eos is None else vocab.piece(vocab.eos).decode(errors="replace"),
        end_tokens=tuple(sorted(vocab.end_tokens)),
        file=vocab.file,
        origin=origin or Origin(),
    )


def _quantization(vocab: LlamaVocab | GgufVocab) -> str:
    """The quantization as in file names: Q4_K_M, F16."""
    return FILE_TYPES.get(_whole(vocab.metadata("general.file_type"), _GUESSED), "unknown")


def _whole(text: str | None, default: int) -> int:
    """The number that a file should have there, or the default."""
    return int(text) if text is not None and text.isdecimal() else default
