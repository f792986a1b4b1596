"""GGUF files that hold a vocabulary and no weights, read by llama.cpp and by us."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import gguf

from segue.models.vocabulary.gguf_vocab import GgufVocab
from segue.runners.llama.vocab import LlamaVocab
from tests.support.models.quick_writer import Writer

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = map(int, list(gguf.TokenType))


@dataclass(frozen=True)
class VocabularyFile:
    model: str  # tokenizer.ggml.model
    tokens: Sequence[str | bytes]
    kinds: Sequence[int] = ()
    scores: Sequence[float] = ()
    merges: Sequence[str] | None = None
    pre: str | None = None
    name: str = "tiny"
    values: Mapping[str, int | bool] = field(default_factory=dict)  # of tokenizer.ggml.*

    def write(self, path: Path) -> Path:
        writer = Writer(path, "llama")
        writer.add_name(self.name)
        writer.add_context_length(32)
        writer.add_embedding_length(32)
        writer.add_feed_forward_length(32)
        writer.add_block_count(1)
        writer.add_head_count(1)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_tokenizer_model(self.model)
        if self.pre is not None:
            writer.add_tokenizer_pre(self.pre)
        writer.add_token_list([*self.tokens])  # type: ignore[arg-type]
        if self.kinds:
            writer.add_token_types(self.kinds)
        if self.scores:
            writer.add_token_scores(self.scores)
        if self.merges is not None:
            writer.add_token_merges([*self.merges])
        for key, value in self.values.items():
            add: Any = writer.add_bool if isinstance(value, bool) else writer.add_uint32
            add(f"tokenizer.ggml.{key}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path


FACTS = (
    *("file", "size", "bos", "eos", "adds_bos", "end_tokens", "fim", "chat_template"),
    *("num_params", "size_bytes"),
)


class Both:
    """The vocabulary of a file by llama.cpp and by us."""

    def __init__(self, path: Path) -> None:
        self.ours, self.theirs = GgufVocab(path), LlamaVocab(path)

    def check_facts(self) -> None:
        """Everything but texts is the same."""
        for name in FACTS:
            assert getattr(self.ours, name) == getattr(self.theirs, name), name
        for token in range(self.theirs.size):
            assert self.ours.piece(token) == self.theirs.piece(token), token
            assert self.ours.is_control(token) == self.theirs.is_control(token), token

    def check(self, text: str) -> None:
        """The tokens are the same."""
        for adds, parses in product((False, True), repeat=2):
            found = self.ours.tokenize(text, adds, parses)
            assert found == self.theirs.tokenize(text, adds, parses), (text, adds, parses)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()
