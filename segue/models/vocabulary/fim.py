"""Fill-in-the-middle tokens: as llama.cpp finds them, those that it does not know, and those that only some models were
trained on.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from segue.models.gguf import Value

if TYPE_CHECKING:  # numpy comes with it, for which a list of models must not wait
    from segue.engine.seam import FimTokens

# role → spellings. Of several that a vocabulary has the first counts; llama.cpp takes any of them.
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "prefix": (
        *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>"),
        *("<|code_prefix|>", "<|prefix|>", "<|plamo:fim_prefix|>"),
    ),
    "suffix": (
        *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>"),
        *("<|code_suffix|>", "<|suffix|>", "<|plamo:fim_suffix|>"),
    ),
    "middle": (
        *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>"),
        *("<|code_middle|>", "<|middle|>", "<|plamo:fim_middle|>"),
    ),
    "pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "repo": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "file_sep": ("<|file_sep|>", "<|plamo:file_separator|>"),
}
# role → metadata (tokenizer.ggml.…); of several keys the last counts.
KEYS: Mapping[str, tuple[str, ...]] = {
    "prefix": ("fim_pre_token_id", "prefix_token_id"),
    "suffix": ("fim_suf_token_id", "suffix_token_id"),
    "middle": ("fim_mid_token_id", "middle_token_id"),
    "pad": ("fim_pad_token_id",),
    "repo": ("fim_rep_token_id",),
    "file_sep": ("fim_sep_token_id",),
}
# role → spellings that only Segue knows, of control tokens
_MORE_SPELLINGS: Mapping[str, tuple[bytes, ...]] = {
    "prefix": (b"<[fim-prefix]>",),
    "suffix": (b"<[fim-suffix]>",),
    "middle": (b"<[fim-middle]>",),
    "pad": (b"<[fim-pad]>",),
    "repo": (b"<repo_name>",),
    "file_sep": (b"<file_sep>", b"<filename>"),
}
# Every newer Mistral vocabulary has these, but only Codestral was trained on them, and without a
# middle: [SUFFIX] suffix [PREFIX] prefix.
_CODESTRAL = {"prefix": b"[PREFIX]", "suffix": b"[SUFFIX]"}
# It has StarCoder's tokens, but its examples have the suffix first.
_MELLUM = "mellum"


def find_fim(
    known: Mapping[str, int | None], controls: Mapping[bytes, int], name: str
) -> "FimTokens | None":
    """`known`: what llama.cpp finds, by role. `controls`: control tokens by their bytes. `name`: the model's."""
    from segue.engine.seam import FimTokens

    found = dict(known)
    for role, spellings in _MORE_SPELLINGS.items():
        if found[role] is None:
            found[role] = next((controls[text] for text in spellings if text in controls), None)
    if "codestral" in name.lower():
        found |= {role: controls.get(text) for role, text in _CODESTRAL.items()}
    prefix, suffix = found.pop("prefix"), found.pop("suffix")
    if prefix is None or suffix is None:
        return None
    return FimTokens(prefix=prefix, suffix=suffix, suffix_first=_MELLUM in name.lower(), **found)


def has_fim(metadata: Mapping[str, Value], tokens: bytes) -> bool:
    """Whether a file has such tokens. `tokens`: its list of them as it lies there, which is not read one by one."""
    name = str(metadata.get("general.name", "")).lower()

    def has(role: str) -> bool:
        if "codestral" in name:
            return _entry(_CODESTRAL[role]) in tokens
        if any(f"tokenizer.ggml.{key}" in metadata for key in KEYS[role]):
            return True
        spelled = (*(text.encode() for text in SPELLINGS[role]), *_MORE_SPELLINGS[role])
        return any(_entry(text) in tokens for text in spelled)

    return has("prefix") and has("suffix")


def _entry(text: bytes) -> bytes:
    """A token in a GGUF's list: the length of its text, and the text."""
    return struct.pack("<Q", len(text)) + text


def with_separators(ends: Iterable[int], fim: "FimTokens | None") -> frozenset[int]:
    """llama.cpp ends at the FIM separators it knows; those that only Segue knows must end a text too."""
    separators = () if fim is None else (fim.pad, fim.repo, fim.file_sep)
    return frozenset((*ends, *(token for token in separators if token is not None)))
