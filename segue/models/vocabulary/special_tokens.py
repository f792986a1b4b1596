"""Which tokens have a role: those that the file's metadata names, or found by their spelling, as llama.cpp does."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from segue.models.gguf import Value
from segue.models.vocabulary.fim import KEYS, SPELLINGS
from segue.models.vocabulary.tokens import CONTROL, NORMAL, UNKNOWN, USER_DEFINED

_SEPARATORS = ("pad", "repo", "file_sep")  # that end a text too
_ENDS = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"),
    *("<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"),
    *("<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>"),
    *("<｜end▁of▁sentence｜>", "[e~[", "<|ifm|im_end|>"),
)
# Of gpt-oss: they are shown.
_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
# Where all of a row end a text, the token that is named first does not: it is of this kind.
_NO_ENDS = (
    ("<|end|>", ("<|return|>", "<|call|>"), USER_DEFINED),
    ("<|end|>", ("<|return|>", "<|calls|>"), USER_DEFINED),
    ("<|end|>", ("<|flush|>", "<|call|>"), USER_DEFINED),
    ("<|end|>", ("<|flush|>", "<|calls|>"), USER_DEFINED),
    ("</s>", ("<|tool_response>",), NORMAL),
    ("</s>", ("<|plamo:eos|>",), NORMAL),
)
# Vocabularies whose mask takes the space before it: by a part of tokenizer.ggml.pre, or of the architecture.
_MASKING = ("jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert")
_MASKING_ARCHITECTURES = ("nomic-bert-moe", "jina-bert-v3")


_NAMED = ("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask")
_NUMBERS = (
    *(f"{name}_token_id" for name in _NAMED),
    *(key for keys in KEYS.values() for key in keys),
)
_FLAGS = ("add_bos_token", "add_eos_token", "add_space_prefix")


@dataclass(frozen=True)
class Roles:
    bos: int | None
    eos: int | None
    fim: Mapping[str, int | None]  # by role
    ends: frozenset[int]
    kinds: Sequence[int]  # by token: some are not what the file says


def find_roles(
    metadata: Mapping[str, Value],
    ids: Mapping[str, int],
    kinds: Sequence[int],
    usual: tuple[int | None, int | None],
) -> Roles:
    """`usual`: BOS and EOS where the file does not name them."""
    found = [*kinds]

    def named(key: str, default: int | None = None) -> int | None:
        value = metadata.get(f"tokenizer.ggml.{key}")
        if type(value) is int and 0 <= value < len(found):
            return value
        return default if default is not None and default < len(found) else None

    fim: dict[str, int | None] = {}
    for role, keys in KEYS.items():
        token = None
        for key in keys:
            token = named(key, token)
        if token is None:
            token = next((ids[text] for text in SPELLINGS[role] if text in ids), None)
            if token is not None:
                found[token] = CONTROL
        fim[role] = token
    ends = {fim[role] for role in _SEPARATORS}
    for text in _ENDS:
        if text in ids:
            ends.add(ids[text])
            found[ids[text]] = CONTROL
    for text in _SHOWN:
        if text in ids:
            found[ids[text]] = USER_DEFINED
    bos, eos = named("bos_token_id", usual[0]), named("eos_token_id", usual[1])
    ends |= {eos, named("eot_token_id"), named("eom_token_id", ids.get("<|eom_id|>"))}
    for text, others, kind in _NO_ENDS:
        if all(ids.get(each, -1) in ends for each in (text, *others)):
            ends.discard(ids[text])
            found[ids[text]] = kind
    return Roles(bos, eos, fim, frozenset(end for end in ends if end is not None), found)


def wrong_words(metadata: Mapping[str, Value], lists: Collection[str]) -> str | None:
    """What the file says of its special tokens in a type that llama.cpp refuses, or None. `lists`: keys of arrays."""
    for kind, what, names in (
        (int, "the number of a token", _NUMBERS),
        (bool, "true or false", _FLAGS),
    ):
        for key in (f"tokenizer.ggml.{name}" for name in names):
            value = metadata.get(key, kind(0))
            if key in lists:
                return f"{key} is a list, not {what}"
            if type(value) is not kind or value < 0:
                return f"{key} is {value!r:.40}, not {what}"
    return None


def strips(
    metadata: Mapping[str, Value], ids: Mapping[str, int], special: Collection[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """Tokens that take the white space before them, and those that take what comes after."""
    pre, name, architecture = (
        str(metadata.get(key, ""))
        for key in ("tokenizer.ggml.pre", "general.name", "general.architecture")
    )
    name = name.lower()
    left, right = set[str](), set[int]()
    if any(part in pre for part in _MASKING) or any(
        part in architecture for part in _MASKING_ARCHITECTURES
    ):
        left = {"<mask>"}
    elif "phi-3" in name or "phi3" in name:
        right = {*special, *(ids[text] for text in ("</s>",) if text in ids)}
        right -= {ids[text] for text in ("<unk>", "<s>", "<|endoftext|>") if text in ids}
    elif "modern-bert" in name:
        left = {"[MASK]"}
    return frozenset(ids[text] for text in left if text in ids), frozenset(right)


def is_found_in_texts(kind: int) -> bool:
    return kind in (CONTROL, USER_DEFINED, UNKNOWN)
