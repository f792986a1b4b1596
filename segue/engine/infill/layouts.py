"""Prompt + suffix → the FIM prompt of a model: its own marker tokens, in the order it was trained on.

    BOS  snippets of other files  PRE before SUF after MID typed      PSM, the order of most models
    BOS  snippets of other files  SUF after PRE before MID            SPM, the suffix first

`typed` is the line with the cursor. Before SUF or after MID, it means the same to the model: a middle that began so.
After MID, one more typed character does not change the tokens before it, so those stay in the prefix cache.
"""

from collections.abc import Iterable
from typing import NamedTuple

from segue.engine.infill.infill_room import split
from segue.engine.seam import FimTokens, Vocab
from segue.engine.tokens import prompt_tokens, text_tokens
from segue.errors import InvalidField, PromptTooLong
from segue.types import Infill, Prompt, Share, Snippet, Split

Layout = tuple[str, ...]  # names of markers (upper case) and of texts

PSM: Layout = ("PRE", "before", "typed", "SUF", "after", "MID")
PSM_LINE: Layout = ("PRE", "before", "SUF", "after", "MID", "typed")
SPM: Layout = ("SUF", "after", "PRE", "before", "typed", "MID")
# The FIM paper's second variant: to the model it is PSM with an empty prefix.
SPM_INSIDE: Layout = ("PRE", "SUF", "after", "MID", "before", "typed")


class Family(NamedTuple):
    has_psm: bool = True  # False: trained on SPM only
    spm: Layout = SPM
    repo_end: str = "\n"  # what stands between the name of the repository and the first file


_ANY = Family()  # Qwen, CodeGemma, DeepSeek, GLM, and whatever a GGUF names as its FIM tokens
_BIGCODE = Family(spm=SPM_INSIDE, repo_end="")
_SUFFIX_FIRST = Family(has_psm=False)

# By the spelling of the prefix token.
FAMILIES: dict[bytes, Family] = {
    b"<fim_prefix>": _BIGCODE,  # StarCoder, StarCoder 2, Granite, StableCode
    b"<fim-prefix>": _BIGCODE,  # SantaCoder
    b"<PRE>": Family(spm=SPM_INSIDE),  # CodeLlama
    b"[PREFIX]": _SUFFIX_FIRST,  # Codestral, which has no middle token
    b"<[fim-prefix]>": _SUFFIX_FIRST,  # Seed-Coder; Mellum's tokens do not tell (FimTokens.suffix_first)
}

# StarCoder 2 takes the name of a file for its first line, so that it is part of the prefix. By its separator.
_NAME_INSIDE = b"<file_sep>"

# Tokens that end a middle though neither the GGUF nor llama.cpp says so.
_ENDS = ("<|file_separator|>", "<file_sep>", "<filename>", "<EOT>", "▁<EOT>")
_SHORT_SUFFIX = 32  # tokens cheap enough to compute again at every keystroke


class FimPrompt(NamedTuple):
    tokens: list[int]
    split: Split
    text: str  # what the caller gave as the prompt


class _Around(NamedTuple):
    """What stands around each prompt of a request, as tokens: it is read once, however many prompts there are."""

    after: list[int]
    repo: list[int]
    files: list[list[int]]
    current: list[int]


def lay_out(
    prompts: Iterable[Prompt], infill: Infill, vocab: Vocab, fim: FimTokens, room: int
) -> list[FimPrompt]:
    """The token prompts of at most `room` tokens; of one that is too long, the parts far from the cursor are
    dropped."""
    after = prompt_tokens(_as_text(infill.suffix), vocab, "suffix", is_start=False)
    around = _Around(after, *_surroundings(infill, vocab, fim, _family(vocab, fim)))
    return [_lay_out(prompt, around, infill, vocab, fim, room) for prompt in prompts]


def _lay_out(
    prompt: Prompt, around: _Around, infill: Infill, vocab: Vocab, fim: FimTokens, room: int
) -> FimPrompt:
    after, repo, files, current = around
    opening = _opening(prompt, vocab)
    layout = _layout(_family(vocab, fim), infill, len(after))
    before, typed = _around_line(prompt, vocab, is_split=layout == PSM_LINE)
    if opening and before[:1] == opening:
        del before[0]  # the caller's tokens already begin with BOS
    current, inside = _name_inside(vocab, fim, current)

    room -= _checked_size(len(opening) + len(repo) + len(current) + len(inside) + 3, room)
    kept = split(len(before) + len(typed), len(after), [len(file) for file in files], room)
    given = sum(map(len, files))
    prefix = (before + typed)[len(before) + len(typed) - kept.prefix :]
    files = files[len(files) - kept.snippets :]
    at = max(0, len(prefix) - len(typed))
    parts = {"before": inside + prefix[:at], "typed": prefix[at:], "after": after[: kept.suffix]}
    division = Split(
        Share(len(prefix), len(before) + len(typed)),
        Share(kept.suffix, len(after)),
        Share(sum(map(len, files)), given),
    )

    for name, marker in (("PRE", fim.prefix), ("SUF", fim.suffix), ("MID", fim.middle)):
        parts[name] = [] if marker is None else [marker]
    head = [opening, repo if files or infill.repo else [], *files, current]
    tokens = [token for part in (*head, *(parts[name] for name in layout)) for token in part]
    return FimPrompt(tokens, division, _text(prompt, vocab))


def end_tokens(vocab: Vocab, fim: FimTokens) -> frozenset[int]:
    """Tokens that end a middle besides the model's usual end tokens: the FIM markers and file separators."""
    around = (fim.prefix, fim.suffix, fim.middle, fim.pad, fim.repo, fim.file_sep)
    named = (_control(vocab, spelling) for spelling in _ENDS)
    return vocab.end_tokens | {t for t in (*around, *named) if t is not None}


def lay_out_plain(
    prompts: Iterable[Prompt], infill: Infill, vocab: Vocab, room: int
) -> list[FimPrompt]:
    """For models without FIM tokens: snippets are text before the prompt, and the suffix is left out."""
    snippets = infill.snippets
    files = [text_tokens(vocab, _block(infill, snippet), False) for snippet in snippets]
    current = text_tokens(vocab, _heading(infill), False) if _is_named(infill) else []
    around = _Around([], [], files, current)
    return [_lay_out_plain(prompt, around, vocab, room) for prompt in prompts]


def _lay_out_plain(prompt: Prompt, around: _Around, vocab: Vocab, room: int) -> FimPrompt:
    _, _, files, current = around
    is_text = bool(prompt.parts) and isinstance(prompt.parts[0], str)
    opening = _opening(prompt, vocab) if is_text else []
    bare = Prompt(prompt.parts, add_special=False, parse_special=prompt.parse_special)
    before = prompt_tokens(bare, vocab, is_start=not current)
    room -= _checked_size(len(opening) + len(current), room)
    kept = split(len(before), 0, [len(file) for file in files], room)
    given = len(before), sum(map(len, files))
    before = before[len(before) - kept.prefix :]
    files = files[len(files) - kept.snippets :]
    division = Split(
        Share(len(before), given[0]), Share(0, 0), Share(sum(map(len, files)), given[1])
    )
    tokens = [token for part in (opening, *files, current, before) for token in part]
    return FimPrompt(tokens, division, _text(prompt, vocab))


# --- order ----------------------------------------------------------------------------------


def _family(vocab: Vocab, fim: FimTokens) -> Family:
    if fim.middle is None or fim.suffix_first:
        return _SUFFIX_FIRST
    spelling = vocab.piece(fim.prefix).replace("▁".encode(), b"").strip()
    return FAMILIES.get(spelling, _ANY)


def _layout(family: Family, infill: Infill, num_after: int) -> Layout:
    if infill.order == "psm" and not family.has_psm:
        raise InvalidField(
            "infill_order must be spm or left out: this model knows the suffix first only",
            "infill_order",
        )
    if infill.order == "spm" or not family.has_psm:
        return family.spm
    return PSM if infill.order == "psm" or num_after <= _SHORT_SUFFIX else PSM_LINE


# --- parts ---------------------------------------------------------------------------------


def _as_text(prompt: Prompt) -> Prompt:
    """The prompt with special tokens off: a marker spelled out in a source file stays text."""
    return Prompt(prompt.parts, add_special=False, parse_special=False)


def _opening(prompt: Prompt, vocab: Vocab) -> list[int]:
    """The tokens before everything else: BOS, if the model uses one."""
    is_wanted = prompt.add_special and vocab.adds_bos
    return [vocab.bos] if is_wanted and vocab.bos is not None else []


def _checked_size(num_fixed: int, room: int) -> int:
    if room <= num_fixed:
        raise PromptTooLong(
            f"the context has room for {max(room, 0)} tokens of prompt, but the names of files and "
            f"the model's own markers take {num_fixed}",
            "prompt",
        )
    return num_fixed


def _around_line(prompt: Prompt, vocab: Vocab, *, is_split: bool) -> tuple[list[int], list[int]]:
    """The prompt up to its last non-blank line, and the rest. Blank lines at the end do not move the split.

    Where no marker comes between the two, all is read as one text: in many vocabularies a line's end and the blanks
    after it are one token.
    """
    parts = prompt.parts
    last = parts[-1] if parts else ""
    if not is_split or not isinstance(last, str):
        return prompt_tokens(_as_text(prompt), vocab), []
    at = last.rfind("\n", 0, len(last.rstrip())) + 1
    before = prompt_tokens(_as_text(Prompt((*parts[:-1], last[:at]))), vocab)
    return before, text_tokens(vocab, last[at:], is_start=not before)


def _surroundings(
    infill: Infill, vocab: Vocab, fim: FimTokens, family: Family
) -> tuple[list[int], list[list[int]], list[int]]:
    """The repository's name, the snippets, and the header of the file that is filled in."""

    def read(text: str) -> list[int]:
        return text_tokens(vocab, text, is_start=False)

    snippets, separator = infill.snippets, fim.file_sep
    if separator is None:
        blocks = [read(_block(infill, snippet)) for snippet in snippets]
        return [], blocks, read(_heading(infill)) if _is_named(infill) else []
    repo, folder = [], infill.repo
    if fim.repo is not None and (snippets or infill.repo):
        repo, folder = [fim.repo, *read((infill.repo or "repository") + family.repo_end)], ""
    files = [[separator, *read(f"{_path(folder, s.filename)}\n{_ended(s.text)}")] for s in snippets]
    path = _path(folder, infill.filename)
    current = [separator, *read(f"{path}\n")] if _is_named(infill) else []
    return repo, files, current


def _name_inside(vocab: Vocab, fim: FimTokens, current: list[int]) -> tuple[list[int], list[int]]:
    """The header of the file that is filled in: what stands before the prefix's marker, and what after it."""
    separator = b"" if fim.file_sep is None else vocab.piece(fim.file_sep)
    at = 1 if separator == _NAME_INSIDE else len(current)
    return current[:at], current[at:]


def _is_named(infill: Infill) -> bool:
    """Whether the file that is filled in gets a header: there are other files, or it has a name."""
    return bool(infill.snippets or infill.repo or infill.filename)


def _block(infill: Infill, snippet: Snippet) -> str:
    return f"--- {_path(infill.repo, snippet.filename)} ---\n{_ended(snippet.text)}"


def _heading(infill: Infill) -> str:
    return f"--- {_path(infill.repo, infill.filename)} ---\n"


def _path(repo: str, filename: str) -> str:
    """The file name, with the repository in front: used for models without a token for the repository."""
    name = filename or "untitled"
    return f"{repo}/{name}" if repo else name


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _text(prompt: Prompt, vocab: Vocab) -> str:
    pieces = (
        part.encode(errors="replace")
        if isinstance(part, str)
        else b"".join(vocab.piece(token) for token in part)
        for part in prompt.parts
    )
    return b"".join(pieces).decode(errors="replace")


def _control(vocab: Vocab, spelling: str) -> int | None:
    tokens = vocab.tokenize(spelling, False, True)
    return tokens[0] if len(tokens) == 1 and vocab.is_control(tokens[0]) else None
