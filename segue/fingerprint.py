"""`system_fingerprint`: what an answer depends on besides the request, in one short text.

Two servers that show the same fingerprint answer the same seeded request with the same bytes. It is made of the
kernels' version, the model file's digest and the version of everything between logits and answer. Versions are digests
of sources: a change that alters no answer may change a fingerprint, but never the other way round.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PREFIX = "fp_"
_ROOT = Path(__file__).parent
# From a request to tokens, from logits to text, and from events to an answer; and the libraries that take part.
_ANSWERING = (
    "engine",
    "dialects",
    "models/vocabulary",
    "exact_math.py",
    "types",
    "unicode_categories.py",
)
_LIBRARIES = ("xllamacpp", "llguidance")


def promised(kernels: str, model_digest: str, kv_type: str) -> str:
    """For a runner whose logits are the same bits on every machine. `kernels`: its version."""
    return PREFIX + _digest([kernels, kv_type, model_digest, _answering()])[:16]


def adapted(promise: str, adapters: Iterable[tuple[str, float]]) -> str:
    """Of a promised one with LoRA adapters: digests of their files, and scales."""
    parts = [f"{digest} {scale!r}" for digest, scale in adapters]
    return PREFIX + _digest([promise, *parts])[:16] if parts else promise


def unpromised(runner: str) -> str:
    """For one that cannot promise it: the fingerprint says so."""
    return f"{PREFIX}varies_{runner}"


@cache
def sources(*names: str) -> str:
    """A digest of these files and folders of the package, by their paths in it."""
    paths = [path for name in names for path in _sources(_ROOT / name)]
    return _digest(
        text
        for path in sorted(paths)
        # As text: files written with other line ends are the same sources.
        for text in (path.relative_to(_ROOT).as_posix(), path.read_text(encoding="utf-8"))
    )


def _sources(path: Path) -> Iterable[Path]:
    return path.rglob("*.py") if path.is_dir() else [path]


def _answering() -> str:
    return _digest([sources(*_ANSWERING), *map(_version, _LIBRARIES)])


def _version(library: str) -> str:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return library


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()
