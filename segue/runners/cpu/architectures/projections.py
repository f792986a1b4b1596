"""Matrices of heads and gates that are not as wide as the file's heads: over most llama.cpp would end the process."""

import math

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.family import Family
from segue.runners.cpu.architectures.layers import (
    BY_LAYER,
    counts,
    given_gates,
    head_size,
    heads_of,
    windows_of,
)
from segue.runners.cpu.architectures.states.recurrence import RWKV


def wrong_projection(header: GgufHeader, family: Family) -> str | None:
    """Which matrix of heads is not as wide as those heads together, or None.

    llama.cpp takes queries, of some models keys too, to be as wide as the residual: it loads such a file, and ends the
    process where it cuts them into heads.
    """
    if family.is_latent or family.mixer in RWKV or family.layers_are == "a mixer":
        return None  # whose matrices are others
    counted = heads_of(header)
    if not any(counted[0]):
        return "no layer has a head"
    is_listed = family.window is not None and family.window.is_listed
    if not counted[0][0] or (is_listed and not header.listed("attention.sliding_window_pattern")):
        return None  # sizes follow from the heads of the first layer, and from which layers have a window
    widths = {tensor.name: math.prod(tensor.shape[1:]) for tensor in header.tensors}
    windows = windows_of(header, family, header.count("block_count"))
    has_fused = family.mixer == "attention" or family.is_mixer_beside
    may_lack_keys = family.mixer != "attention" or family.layers_are == "as counted"
    for layer, (heads, key_heads, window) in enumerate(zip(*counted, windows, strict=False)):
        if heads <= 0 or key_heads < 0 or (may_lack_keys and not key_heads):
            continue
        size = head_size(header, window != 0)
        queries = heads * size * (2 if family.attention_gate == "joined" else 1)
        keys, values = key_heads * size, key_heads * _value_size(header, window != 0)
        wanted = {"q": queries, "k": keys, "v": values}
        if has_fused:
            wanted["qkv"] = queries + keys + values
        for part, width in wanted.items():
            found = widths.get(f"blk.{layer}.attn_{part}.weight", width)
            if found != width:
                shared = "" if part == "q" else f" with {key_heads} keys"
                given = f"{found} wide (blk.{layer}.attn_{part})"
                return f"{heads} heads of {size}{shared} are not {given}"
    return None


def _value_size(header: GgufHeader, is_windowed: bool) -> int:
    heads = next(iter(counts(header, BY_LAYER[0])), 0)
    size = header.count("attention.value_length")
    size = size or header.count("embedding_length") // max(1, heads)
    return header.count("attention.value_length_swa") or size if is_windowed else size


def wrong_gates(header: GgufHeader, family: Family) -> str | None:
    """Gates that are neither of heads nor of their dimensions: llama.cpp would end the process."""
    if family.attention_gate != "own or heads":
        return None
    heads, size = heads_of(header)[0], head_size(header)
    for layer, outputs in given_gates(header).items():
        if layer < len(heads) and outputs not in (heads[layer], heads[layer] * size):
            return f"layer {layer} has {outputs} gates for {heads[layer]} heads of {size}"
    return None
