"""LoRA adapters in GGUF: how one is written on the command line, and whether it belongs to a model.

An adapter has pairs of tensors, NAME.lora_a and NAME.lora_b, for some matrices of its base: instead of W x, it is
W x + scale · alpha / rank · B (A x).
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segue.bounds import MAX_NUMBER
from segue.errors import Incompatible, ModelUnavailable
from segue.models import gguf
from segue.models.gguf import GgufHeader, Tensor
from segue.models.gguf.types import NO_WEIGHTS

SUFFIXES = (".lora_a", ".lora_b")
# llama.cpp passes over pairs of these without a word.
_OF_LATENTS = (".attn_k_b.weight", ".attn_v_b.weight", ".attn_kv_b.weight")
_EMBEDDING = "token_embd.weight"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
FORM = "[NAME=]FILE.gguf[@SCALE]"


@dataclass(frozen=True)
class AdapterRef:
    """An adapter as it was given. With a name of its own, only requests that ask for it get it."""

    path: str
    name: str
    scale: float
    is_named: bool

    @property
    def file(self) -> str:
        return re.split(r"[/\\]", self.path)[-1]


@dataclass(frozen=True)
class Pair:
    """The two tensors for one matrix of the base."""

    a: Tensor
    b: Tensor

    @property
    def rank(self) -> int:
        return self.b.shape[0]


def parse(text: str, is_file: Callable[[str], bool] = os.path.isfile) -> AdapterRef:
    """[NAME=]FILE[@SCALE]. A file that has the whole text as its name is that file."""
    name, scale, path = "", 1.0, text.strip()
    head, equals, rest = path.partition("=")
    if equals and not is_file(path) and "/" not in head and "\\" not in head:
        if not _NAME.fullmatch(head):
            raise ModelUnavailable(f"--lora {text}: {head!r} cannot be the name of an adapter")
        name, path = head, rest
    head, at, rest = path.rpartition("@")
    if at and not is_file(path):
        try:
            path, scale = head, float(rest)
        except ValueError:
            raise ModelUnavailable(f"--lora {text}: {rest!r} is no scale; write {FORM}") from None
    if not path or not abs(scale) <= MAX_NUMBER:
        raise ModelUnavailable(f"--lora {text}: write {FORM}")
    path = os.path.expanduser(path)
    stem = re.sub(r"\.gguf$", "", re.split(r"[/\\]", path)[-1], flags=re.IGNORECASE)
    derived = re.sub(r"[^A-Za-z0-9._:@+-]+", "-", stem).strip("-._:@+")
    return AdapterRef(path, name or derived[:200] or "adapter", scale, bool(name))


def parse_all(
    texts: Sequence[str], taken: Sequence[str], is_file: Callable[[str], bool] = os.path.isfile
) -> tuple[AdapterRef, ...]:
    """Every adapter; no name is also one of `taken`, the names of models."""
    refs = tuple(parse(text, is_file) for text in texts)
    names = [*taken, *(ref.name for ref in refs)]
    for ref in refs:
        if names.count(ref.name) > 1:
            raise ModelUnavailable(
                f"--lora {ref.file}: the name {ref.name!r} is taken; write OTHER_NAME={ref.path}"
            )
    return refs


def alpha(header: GgufHeader) -> float:
    """0: ranks are not divided by."""
    value = header.metadata.get("adapter.lora.alpha", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def strength(header: GgufHeader, rank: int) -> float:
    """What B (A x) is multiplied by, beside the scale."""
    given = alpha(header)
    return given / rank if given else 1.0


def pairs(header: GgufHeader) -> dict[str, Pair]:
    """By the name of the base's tensor. Of an adapter that `check` has passed."""
    by_name = {tensor.name: tensor for tensor in header.tensors}
    return {
        name.removesuffix(SUFFIXES[0]): Pair(tensor, by_name[_other(name)])
        for name, tensor in by_name.items()
        if name.endswith(SUFFIXES[0])
    }


def check(path: str, base: GgufHeader) -> GgufHeader:
    """The adapter's header. Raises ModelUnavailable or Incompatible where it cannot adapt this base."""
    header = gguf.header(path)
    wrong = _wrong_kind(header, base) or _wrong_names(header, base) or _wrong_shapes(header, base)
    if wrong:
        raise Incompatible(f"the adapter {path} cannot be used: {wrong}")
    return header


def _wrong_kind(header: GgufHeader, base: GgufHeader) -> str | None:
    kinds = header.metadata.get("general.type"), header.metadata.get("adapter.type")
    if kinds != ("adapter", "lora"):
        return f"its type is {kinds[0]!r:.40} and {kinds[1]!r:.40}, not 'adapter' and 'lora'"
    if len(header.files) > 1:
        return f"it is split into {len(header.files)} files"
    if header.architecture != base.architecture:
        return f"it is for {header.architecture}, and the model is {base.architecture}"
    if not abs(alpha(header)) <= MAX_NUMBER:
        return f"its alpha is {alpha(header)}"
    if "adapter.alora.invocation_tokens" in header.array_lengths:
        return "it begins to act at certain tokens (aLoRA), which is not known here"
    return None


def _wrong_names(header: GgufHeader, base: GgufHeader) -> str | None:
    names = {tensor.name for tensor in header.tensors}
    known = {tensor.name for tensor in base.tensors}
    if not names:
        return "it has no tensors"
    for name in sorted(names):
        if not name.endswith(SUFFIXES):
            return f"tensor {name} is neither a .lora_a nor a .lora_b"
        if _other(name) not in names:
            return f"tensor {name} has no {_other(name)} beside it"
        if name[: -len(SUFFIXES[0])] not in known:
            return f"the model has no tensor {name[: -len(SUFFIXES[0])]}: it is for another base"
        if name[: -len(SUFFIXES[0])].endswith(_OF_LATENTS):
            return f"{name} is for what makes keys and values of latents, which no runner adapts"
    return None


def _wrong_shapes(header: GgufHeader, base: GgufHeader) -> str | None:
    shapes = {tensor.name: tensor.shape for tensor in base.tensors}
    for name, pair in pairs(header).items():
        a, b, shape = pair.a.shape, pair.b.shape, shapes[name]
        for tensor in (pair.a, pair.b):
            if tensor.type in NO_WEIGHTS:
                return f"{tensor.name} is of type {tensor.type}, which weights cannot have"
        if len(shape) < 2 or len(a) != len(shape) or len(b) != len(shape):
            return f"{name} is no matrix like those of its pair"
        # Of the embeddings' pair, one is transposed: a row of it for every token.
        columns, rank = a[:2][::-1] if name == _EMBEDDING else a[:2]
        if rank != b[0]:
            return f"{name}: one of its pair has rank {rank}, the other {b[0]}"
        expected = shape[:2][::-1] if name == _EMBEDDING else shape[:2]
        if (columns, b[1]) != expected or a[2:] != shape[2:] or b[2:] != shape[2:]:
            return f"{name}: a pair of shapes {a} and {b} does not go with {shape}: it is for another base"
    return None


def _other(name: str) -> str:
    """The name of the tensor that makes a pair with this one."""
    own = SUFFIXES.index(name[-len(SUFFIXES[0]) :])
    return name[: -len(SUFFIXES[0])] + SUFFIXES[1 - own]
