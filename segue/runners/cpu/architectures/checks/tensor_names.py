"""Which tensors a file of a known architecture must have, and may have, and their shapes."""

import re

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.checks.refusals import said
from segue.runners.cpu.architectures.checks.tensor_settings import DECIDING, settings_of
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.tensor_scales import scale_shapes
from segue.runners.cpu.architectures.tensor_types import MATRIX_TYPES
from segue.runners.cpu.architectures.tensors import (
    VECTOR_TYPES,
    computed,
    extras,
    is_vector,
    shapes,
)

GROUP = 32  # rows that products take are a multiple of it wide


def wrong_tensors(header: GgufHeader, drafts: bool = False) -> str | None:
    """Why the file's tensors are not those that its settings ask for, or None. `drafts`: with the layer for those."""
    return _wrong_names(header, drafts) or _wrong_shapes(header, drafts)


def _wrong_names(header: GgufHeader, drafts: bool) -> str | None:
    if "token_embd.weight" not in {tensor.name for tensor in header.tensors}:
        return "the file lacks tensors (token_embd.weight)"
    hparams = hparams_of(header, drafts)
    tensors = computed(header.tensors, hparams)
    found = [tensor.name for tensor in tensors]
    names = {*found}
    for count in (hparams.expert_hidden, hparams.shared_hidden):
        if count % GROUP:
            keys = said(header, settings_of("ffn_gate_shexp"))
            return f"experts are {count} wide, not a multiple of {GROUP}{keys}"
    if len(names) < len(found):  # under its own name, and under the usual one
        return f"the file has a tensor twice: as {' and '.join(hparams.family.renamed)}"
    required = {*shapes(hparams)}
    if missing := sorted(required - names):
        others = [key for key in settings_of(missing[0]) if key != "embedding_length"]
        return f"the file lacks tensors ({missing[0]}){said(header, others)}"
    unknown = names - required - {*extras(hparams)} - {*scale_shapes(tensors, hparams)}
    if unknown := {re.sub(r"\d+", "N", name) for name in unknown}:
        some = ", ".join(sorted(unknown)[:4])
        return f"the file has tensors it does not know: {some}{said(header, DECIDING)}"
    return None


def _plain(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a vector without the ones at its end, which some files have and others have not."""
    while is_vector(name) and len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _wrong_shapes(header: GgufHeader, drafts: bool) -> str | None:
    """Why a tensor has a wrong shape, or None. Compiled code relies on these shapes and checks no bounds."""
    hparams = hparams_of(header, drafts)
    tokens = header.array_lengths.get("tokenizer.ggml.tokens", 0)
    if tokens not in (0, hparams.vocab_size):  # what is drawn could have no text
        return f"its vocabulary has {tokens} tokens, its embeddings {hparams.vocab_size}"
    tensors = computed(header.tensors, hparams)
    expected = shapes(hparams) | extras(hparams) | scale_shapes(tensors, hparams)
    for tensor in tensors:
        shape = expected[tensor.name]
        if _plain(tensor.name, tensor.shape) != _plain(tensor.name, shape):
            keys = said(header, settings_of(tensor.name))
            return f"tensor {tensor.name} has the shape {tensor.shape}, not {shape}{keys}"
        known = VECTOR_TYPES if is_vector(tensor.name) else MATRIX_TYPES
        if tensor.type not in known:
            return f"tensor {tensor.name} is of type {tensor.type}, not one of {', '.join(known)}"
    return None
