"""A model as written on the command line → ModelRef. Pure, except for the check whether a file exists."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Literal

from segue.errors import ModelUnavailable

EMBEDDED_NAME = "smollm2-135m-instruct"
_EMBEDDED_ALIASES = ("smollm2:135m",)  # what Ollama calls it
_EMBEDDED_FORMS = frozenset({"", "default", EMBEDDED_NAME, *_EMBEDDED_ALIASES})

FORMS = (
    "default (the embedded model), PATH.gguf, hf:OWNER/REPO/FILE.gguf, "
    "OWNER/REPO or OWNER/REPO:Q4_K_M, each with NAME= in front to choose the served name"
)

Source = Literal["embedded", "path", "hub"]

_SERVED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_HUB_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_QUANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_HUB_SITE = re.compile(r"(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/", re.IGNORECASE)
_HUB_PAGE = re.compile(r"/(?:blob|resolve|tree)/([^/]+)(?=/|$)")  # with the revision
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PATH_START = re.compile(r"[/.~\\]|[A-Za-z]:[/\\]")  # absolute, relative, home, UNC or drive

NO_DRAFT = "none"  # of --draft: no model, and a model does not draft for itself either


@dataclass(frozen=True)
class ModelRef:
    """Where a model comes from and what it is called."""

    source: Source
    served_name: str
    aliases: tuple[str, ...] = ()
    _: KW_ONLY
    path: str = ""  # source "path"
    repo: str = ""  # source "hub": owner/name
    file: str = ""  # source "hub": one file of the repository; else the quantisation decides
    quant: str = ""  # source "hub": "" is the first of the preferred ones

    @property
    def names(self) -> tuple[str, ...]:
        return (self.served_name, *self.aliases)


def shown_name(path: str | Path) -> str:
    """The name of a file as messages and pages can carry it: what in it is not UTF-8 is replaced."""
    return os.fsencode(Path(path).name).decode(errors="replace")


def parse(text: str, is_file: Callable[[str], bool] = os.path.isfile) -> ModelRef:
    """The model that `text` names. Raises ModelUnavailable, saying what would be right."""
    text = text.strip()
    if any(ord(char) < 32 for char in text):
        raise ModelUnavailable(f"model name {text!r} holds a control character")
    if is_file(text):
        return _path(text)
    name, equals, rest = text.partition("=")
    if equals and not _PATH_START.match(name) and not _URL.match(name):
        if not rest:  # as a script writes it whose variable is not set
            raise ModelUnavailable(
                f"no model follows {text!r}: write {text}MODEL, or {text}default"
            )
        return replace(_unnamed(rest, is_file), served_name=_served_name(name), aliases=())
    return _unnamed(text, is_file)


def parse_all(
    models: Sequence[str],
    aliases: Sequence[str],
    is_file: Callable[[str], bool] = os.path.isfile,
) -> tuple[ModelRef, ...]:
    """Every model to serve, the embedded one when none is named; no two share a name.

    An alias is NAME (for the first model) or NAME=SERVED_NAME.
    """
    refs = [parse(text, is_file) for text in models or [""]]
    served = [ref.served_name for ref in refs]
    for name in served:
        if served.count(name) > 1:
            raise ModelUnavailable(
                f"two models would be served as {name!r}; give one of them another name: NAME=MODEL"
            )
    chosen = _explicit_aliases(aliases, served)
    taken = set(served) | set(chosen)
    result = []
    for ref in refs:
        # Explicit names take precedence over names derived from a file or repository.
        implied = [alias for alias in ref.aliases if alias not in taken]
        taken.update(implied)
        wanted = [alias for alias, target in chosen.items() if target == ref.served_name]
        result.append(replace(ref, aliases=(*wanted, *implied)))
    return tuple(result)


def _explicit_aliases(aliases: Sequence[str], served: Sequence[str]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for text in aliases:
        alias, equals, target = text.partition("=")
        if not equals:
            target = served[0]
        if target not in served:
            raise ModelUnavailable(
                f"alias {text!r} points at no served model; served are: {', '.join(served)}"
            )
        if alias in served or chosen.get(alias, target) != target:
            raise ModelUnavailable(f"alias {alias!r} already names another model")
        chosen[_served_name(alias)] = target
    return chosen


def _served_name(name: str) -> str:
    if not _SERVED.fullmatch(name):
        raise ModelUnavailable(
            f"{name!r} cannot be a served name: up to 200 letters, digits and . _ : / @ + -, "
            "beginning with a letter or digit"
        )
    return name


def _unnamed(text: str, is_file: Callable[[str], bool]) -> ModelRef:
    if text.lower() in _EMBEDDED_FORMS:
        return ModelRef("embedded", EMBEDDED_NAME, _EMBEDDED_ALIASES)
    if site := _HUB_SITE.match(text):
        return _hub_address(text, text[site.end() :])
    if text.lower().startswith("hf:"):
        return _hub(text, text[3:])
    if _URL.match(text):
        raise ModelUnavailable(
            f"{text!r} is an address: download the file and write its path, or for one of Hugging Face "
            "hf:OWNER/REPO/FILE.gguf"
        )
    if is_file(text) or _PATH_START.match(text) or text.lower().endswith(".gguf"):
        return _path(text)
    if "/" in text:
        return _hub(text, text)
    raise ModelUnavailable(f"no model {text!r}: write {FORMS}; the path of a folder begins with ./")


def _path(text: str) -> ModelRef:
    file_name = re.split(r"[/\\]", text)[-1]
    stem = re.sub(r"\.gguf$", "", file_name, flags=re.IGNORECASE)
    served = re.sub(r"[^A-Za-z0-9._:@+-]+", "-", stem).strip("-._:@+")
    if not served:
        raise ModelUnavailable(f"{text!r} names no file: write the path of a .gguf file")
    return ModelRef("path", served[:200], path=text)


def _hub(text: str, rest: str) -> ModelRef:
    repo, colon, quant = rest.partition(":")
    parts = repo.split("/")
    if len(parts) < 2 or not all(_is_hub_part(part) for part in parts):
        raise ModelUnavailable(
            f"{text!r} is no Hugging Face name: write OWNER/REPO, OWNER/REPO:QUANT or "
            "hf:OWNER/REPO/FILE.gguf (for a local file, begin with ./)"
        )
    repo, file = "/".join(parts[:2]), "/".join(parts[2:])
    if file:
        return _hub_file(text, repo, file, colon)
    if colon and not _QUANT.fullmatch(quant):
        raise ModelUnavailable(f"{text!r} names no quantisation: write {repo}:Q4_K_M or {repo}")
    served, alias = repo + colon + quant, parts[1] + colon + quant
    return ModelRef("hub", served, (alias,), repo=repo, quant=quant)


def _hub_address(text: str, rest: str) -> ModelRef:
    """An address as a browser shows it, or a name as Ollama has it, which its clients then ask for."""
    place = rest.partition("?")[0].rstrip("/")
    page = _HUB_PAGE.search(place)
    if page and page[1] != "main":
        raise ModelUnavailable(f"{text!r} is of {page[1]!r}: what is fetched is of main")
    ref = _hub(text, _HUB_PAGE.sub("", place, count=1))
    return ref if _URL.match(text) else replace(ref, aliases=(*ref.aliases, text))


def _hub_file(text: str, repo: str, file: str, colon: str) -> ModelRef:
    if colon or not file.lower().endswith(".gguf"):
        raise ModelUnavailable(
            f"{text!r} must end in a .gguf file, as in hf:{repo}/FILE.gguf; or write {repo}"
        )
    served = _path(file).served_name
    return ModelRef("hub", served, (f"{repo}/{file}",), repo=repo, file=file)


def _is_hub_part(part: str) -> bool:
    # ".." inside a part is refused too: the hub allows it in no name, and a path must stay in its folder.
    return bool(_HUB_PART.fullmatch(part)) and ".." not in part


def draft_model(said: str | None) -> str | None:
    """The model that drafts for the first one, as --draft says, if that names one."""
    return None if said == NO_DRAFT else said
