"""Tiny GGUFs of the models that fill gaps, with the metadata and tokens that their real files have."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import gguf

from tests.support.models.tiny_gguf import END, add_vocabulary, pieces
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

_OLD = {  # of files from before the keys that say fim
    "prefix": gguf.Keys.Tokenizer.PREFIX_ID,
    "suffix": gguf.Keys.Tokenizer.SUFFIX_ID,
    "middle": gguf.Keys.Tokenizer.MIDDLE_ID,
}
_NEW = {
    "prefix": gguf.Keys.Tokenizer.FIM_PRE_ID,
    "suffix": gguf.Keys.Tokenizer.FIM_SUF_ID,
    "middle": gguf.Keys.Tokenizer.FIM_MID_ID,
}
_CHARACTERS = "▁" + "".join(map(chr, range(0x21, 0x7F))) + "\n"
_BEFORE_CHARACTERS = 3 + 256  # <unk>, <s>, </s> and bytes


@dataclass(frozen=True)
class Coder:
    tiny: str  # of tiny_models.MODELS
    markers: Mapping[str, str]  # prefix, suffix and middle
    ends: tuple[str, ...] = ()  # other tokens that end a middle
    keys: Mapping[str, str] = field(default_factory=dict)  # metadata that has the markers' ids
    is_sentencepiece: bool = False
    has_space_prefix: bool = False
    adds_bos: bool = False

    @property
    def controls(self) -> list[str]:
        return [*self.markers.values(), *self.ends]

    def ids(self, text: str) -> list[int]:
        """Of a text whose characters are a token each."""
        if not self.is_sentencepiece:
            return [*text.encode()]
        spelled = text.replace(" ", "▁")
        return [_BEFORE_CHARACTERS + _CHARACTERS.index(character) for character in spelled]

    def marker(self, name: str) -> int:
        first = (
            _BEFORE_CHARACTERS + len(_CHARACTERS) if self.is_sentencepiece else len(pieces()) + 1
        )
        return first + self.controls.index(self.markers[name])

    @property
    def bos(self) -> list[int]:
        return [1] if self.adds_bos else []

    def write(self, path: Path | str) -> Path:
        return write(path, MODELS[self.tiny], vocabulary=self._vocabulary)

    def _vocabulary(self, writer: gguf.GGUFWriter) -> tuple[int, int]:
        for role, key in self.keys.items():
            writer.add_uint32(key, self.marker(role))
        if not self.is_sentencepiece:
            writer.add_tokenizer_model("gpt2")
            add_vocabulary(writer, [END, *self.controls], self.adds_bos)
            return len(pieces()) + 1 + len(self.controls), 1 + len(self.controls)
        tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        kinds = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2]
        kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * len(_CHARACTERS)
        tokens += [*_CHARACTERS, *self.controls]
        kinds += [gguf.TokenType.CONTROL] * len(self.controls)
        writer.add_tokenizer_model("llama")
        writer.add_token_list(tokens)
        writer.add_token_scores([-float(i) for i in range(len(tokens))])
        writer.add_token_types(kinds)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(self.adds_bos)
        writer.add_add_space_prefix(self.has_space_prefix)
        return len(tokens), len(self.controls)


def _named(prefix: str, suffix: str, middle: str) -> dict[str, str]:
    return {"prefix": prefix, "suffix": suffix, "middle": middle}


_BIGCODE = _named("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_BARRED = _named("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")

CODERS: Mapping[str, Coder] = {
    "Qwen2.5-Coder": Coder("qwen2", _BARRED, ("<|repo_name|>", "<|file_sep|>"), _NEW),
    "Qwen2.5-Coder, an old file": Coder("qwen2", _BARRED, ("<|repo_name|>", "<|file_sep|>")),
    "StarCoder2": Coder("starcoder2", _BIGCODE, ("<repo_name>", "<file_sep>")),
    "CodeGemma": Coder(
        "gemma", _BARRED, ("<|file_separator|>",), _OLD, is_sentencepiece=True, adds_bos=True
    ),
    "CodeLlama": Coder(
        "llama",
        _named("▁<PRE>", "▁<SUF>", "▁<MID>"),
        ("▁<EOT>",),
        _OLD,
        is_sentencepiece=True,
        has_space_prefix=True,
        adds_bos=True,
    ),
    "DeepSeek-Coder": Coder("llama", _named("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>")),
    "Granite-Code": Coder("llama", _BIGCODE, ("<fim_pad>", "<filename>")),
}
