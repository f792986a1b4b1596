"""Fill-in-the-middle tokens that llama.cpp does not know, and those that only some models were trained on."""

from collections.abc import Iterable, Mapping

from segue.engine.seam import FimTokens

# role → spellings
_SPELLED: Mapping[str, tuple[bytes, ...]] = {
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
) -> FimTokens | None:
    """`known`: what llama.cpp finds, by role. `controls`: control tokens by their bytes. `name`: the model's."""
    found = dict(known)
    for role, spellings in _SPELLED.items():
        if found[role] is None:
            found[role] = next((controls[text] for text in spellings if text in controls), None)
    if "codestral" in name.lower():
        found |= {role: controls.get(text) for role, text in _CODESTRAL.items()}
    prefix, suffix = found.pop("prefix"), found.pop("suffix")
    if prefix is None or suffix is None:
        return None
    return FimTokens(prefix=prefix, suffix=suffix, suffix_first=_MELLUM in name.lower(), **found)


def with_separators(ends: Iterable[int], fim: FimTokens | None) -> frozenset[int]:
    """llama.cpp ends at the FIM separators it knows; those that only Segue knows must end a text too."""
    separators = () if fim is None else (fim.pad, fim.repo, fim.file_sep)
    return frozenset((*ends, *(token for token in separators if token is not None)))
