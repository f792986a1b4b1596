"""The models on this machine: in Segue's cache and in that of Hugging Face."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from segue.errors import ModelUnavailable
from segue.models.context import context_of
from segue.models.digests import known_digest
from segue.models.embedded import SMOLLM2
from segue.models.gguf import GgufHeader, header, split
from segue.models.hub import has_hub_cache, hub_cache
from segue.models.names import shown_name
from segue.models.origin import gguf_origin
from segue.models.vocabulary.fim import has_fim
from segue.types import ModelInfo

if TYPE_CHECKING:
    from huggingface_hub import CachedFileInfo, CachedRevisionInfo

_OF_HUB = "hf:"  # what names of models in the cache of Hugging Face begin with
_TEMPLATE, _TOKENS = "tokenizer.chat_template", "tokenizer.ggml.tokens"


@dataclass(frozen=True)
class LocalModel:
    """A local model: its file, or the first of them. `name`: the argument for `segue serve`."""

    name: str
    path: Path
    num_bytes: int


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What its files say about a model."""

    architecture: str
    num_params: int
    quantization: str
    context_length: int
    num_bytes: int
    vocab_size: int
    has_fim: bool
    has_template: bool


def local_models(cache_dir: Path) -> Iterator[LocalModel]:
    embedded = cache_dir / "models" / SMOLLM2.file_name
    if embedded.is_file():
        yield LocalModel("default", embedded, embedded.stat().st_size)
    yield from _of_hub()


def _of_hub() -> Iterator[LocalModel]:
    repos = hub_cache().repos if has_hub_cache() else ()
    for repo in sorted(repos, key=lambda each: each.repo_id):
        # What is served comes first: an older revision may have files of the same names.
        for revision in sorted(repo.revisions, key=lambda each: "main" not in each.refs):
            sizes = {name: file.size_on_disk for name, file in _gguf_files(revision).items()}
            for file, num_bytes in sorted(models_of(sizes).items()):
                path = revision.snapshot_path / file
                yield LocalModel(f"{_OF_HUB}{repo.repo_id}/{file}", path, num_bytes)


def _gguf_files(revision: "CachedRevisionInfo") -> dict[str, "CachedFileInfo"]:
    """By the name that each has in its repository."""
    return {
        file.file_path.relative_to(revision.snapshot_path).as_posix(): file
        for file in revision.files
        if file.file_name.lower().endswith(".gguf")
    }


def models_of(sizes: Mapping[str, int]) -> dict[str, int]:
    """Files by name, with those of a split model as one: by the first of them that is here, with the size of all."""
    totals: dict[str, int] = {}
    for name in sorted(sizes):
        first = next(each for each in split.siblings(name) if each in sizes)
        totals[first] = totals.get(first, 0) + sizes[name]
    return totals


def model_facts(path: Path) -> ModelFacts:
    """Read the facts from the file. Raises ModelUnavailable if it is damaged."""
    read = header(path)
    return ModelFacts(
        architecture=read.architecture,
        num_params=read.num_params,
        quantization=read.quantization,
        context_length=read.train_context,
        num_bytes=read.num_bytes,
        vocab_size=read.n_vocab,
        has_fim=_has_fim(path, read),
        has_template=_TEMPLATE in read.metadata,
    )


def preview(path: Path, name: str, *, context_length: int | None, cache_dir: Path) -> ModelInfo:
    """What the file says of a model that is not loaded. Raises ModelUnavailable if it is damaged.

    `cache_dir`: where digests are kept.
    """
    read = header(path)
    template = read.metadata.get(_TEMPLATE)
    return ModelInfo(
        name=name,
        architecture=read.architecture,
        runner="",
        context_length=context_of(context_length, read.train_context),
        vocab_size=read.n_vocab,
        num_params=read.num_params,
        size_bytes=sum(tensor.num_bytes for tensor in read.tensors),
        quantization=read.quantization,
        has_fim=_has_fim(path, read),
        deterministic=False,
        fingerprint="",
        kv_tokens=0,
        train_context=read.train_context,
        chat_template=template if isinstance(template, str) else None,
        file=shown_name(path),
        origin=gguf_origin(path, known_digest(read.files, cache_dir), read),
    )


def _has_fim(path: Path, read: GgufHeader) -> bool:
    start, end = read.array_places.get(_TOKENS, (0, 0))
    with path.open("rb") as file:
        file.seek(start)
        return has_fim(read.metadata, file.read(end - start))


def remove(kept: LocalModel) -> int:
    """Delete the model's files, and no other's; return the number of bytes freed."""
    if kept.name.startswith(_OF_HUB):
        return _remove_from_hub(kept)
    freed = kept.path.stat().st_size
    kept.path.unlink()
    return freed


def _remove_from_hub(kept: LocalModel) -> int:
    cache = hub_cache()
    for repo in cache.repos:
        for revision in repo.revisions:
            if not kept.path.is_relative_to(revision.snapshot_path):
                continue
            files = _gguf_files(revision)
            own = split.siblings(kept.path.relative_to(revision.snapshot_path).as_posix())
            if files.keys() <= set(own):  # what else there is belongs to it
                plan = cache.delete_revisions(revision.commit_hash)
                plan.execute()
                return plan.expected_freed_size
            gone = {files[name] for name in own if name in files}
            others = {file for each in repo.revisions for file in each.files} - gone
            return _remove_files(gone, {file.blob_path for file in others})
    raise ModelUnavailable(f"{kept.name} is not in the cache of Hugging Face any more")


def _remove_files(gone: Iterable["CachedFileInfo"], needed: Collection[Path]) -> int:
    """`needed`: what files that stay are links to."""
    freed = 0
    for file in gone:
        file.file_path.unlink()
        if file.blob_path not in needed:
            freed += 0 if file.blob_path.is_symlink() else file.size_on_disk
            file.blob_path.unlink(missing_ok=True)  # where there are no links, it was the file
    return freed
