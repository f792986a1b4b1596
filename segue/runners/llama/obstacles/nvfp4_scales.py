"""Scales of whole NVFP4 matrices over which llama.cpp ends the process, where it could refuse the file."""

from collections.abc import Iterable

from segue.models.gguf import GgufHeader

_TYPE = "NVFP4"
_OUTPUT_SCALES = {"output.scale", "output.input_scale"}
_FORWARD = {f"ffn_{part}{end}" for part in ("gate", "up", "down") for end in ("", "_shexp")}


def nvfp4_scales_obstacle(header: GgufHeader, adapted: Iterable[str]) -> str | None:
    """Why llama.cpp cannot run this file, or None. `adapted`: tensors that LoRA adapters change."""
    names, changed = {tensor.name for tensor in header.tensors}, set(adapted)
    for name in (tensor.name for tensor in header.tensors if tensor.type == _TYPE):
        stem = name.removesuffix(".weight")
        is_head = stem == "token_embd" and "output.weight" not in names
        if is_head and (found := sorted(names & _OUTPUT_SCALES)):
            return f"{name}, of type {_TYPE}, is the output too, for which there is {found[0]}"
        if stem.split(".")[-1] not in _FORWARD or f"{stem}.scale" not in names:
            continue
        if f"{stem}.bias" in names:
            return f"{name}, of type {_TYPE}, has a scale and a bias"
        if name in changed:
            return f"{name}, of type {_TYPE}, has a scale and an adapter"
    return None
