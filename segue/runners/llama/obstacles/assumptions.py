"""What llama.cpp (build 11549) takes for granted of some architectures: it ends the process, or never ends computing,
where a file says otherwise.
"""

from collections.abc import Callable, Mapping

from segue.models.gguf import GgufHeader

_BASE = 10000.0  # of DeepSeek-OCR's positions
_HEADS = "attention.head_count"
_PICTURES = 8196  # tokens of Chameleon's pictures end there


def _wrong_tokens(header: GgufHeader) -> str | None:
    """Those of pictures are there."""
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    tokens = shapes.get("token_embd.weight", (_PICTURES,))[-1]
    return f"its vocabulary has {tokens} tokens, not {_PICTURES}" if tokens < _PICTURES else None


def _wrong_end(header: GgufHeader) -> str | None:
    """The last layer has a feed-forward."""
    hidden = header.listed("feed_forward_length")
    return "its last layer has no feed-forward" if hidden and not hidden[-1] else None


def _wrong_base(header: GgufHeader) -> str | None:
    """Positions turn by one base."""
    base = header.metadata.get(f"{header.architecture}.rope.freq_base", _BASE)
    return None if base == _BASE else f"its positions turn by a base of {base}, not of {_BASE}"


def _half_fed(header: GgufHeader) -> str | None:
    """A feed-forward, of experts too, has both its first matrix and its last."""
    names = {tensor.name for tensor in header.tensors}
    for layer in range(header.count("block_count") - header.count("nextn_predict_layers")):
        for end in ("", "_exps", "_shexp"):
            first = {f"blk.{layer}.ffn_{part}{end}.weight" for part in ("up", "gate_up")}
            last = f"blk.{layer}.ffn_down{end}.weight"
            if (last in names) != bool(first & names):
                return f"layer {layer} lacks ffn_{'up' if last in names else 'down'}{end}.weight"
    return None


def _no_heads(header: GgufHeader) -> str | None:
    """The first layer has heads: by them the dimensions that positions turn are counted. A loop over those that do not
    turn never ends else.
    """
    first = next(iter(header.listed(_HEADS)), header.count(_HEADS))
    return None if first else "its first layer has no heads, by which it would turn positions"


def _normed(header: GgufHeader) -> str | None:
    """Queries and keys are not normed. They are cut out of one product's rows, and where it norms them, it takes those
    of several rows to lie side by side.
    """
    if any(tensor.name.endswith("attn_q_norm.weight") for tensor in header.tensors):
        return "its queries and keys are normed, over which it would end the process"
    return None


_CHECKS: Mapping[str, Callable[[GgufHeader], str | None]] = {
    "chameleon": _wrong_tokens,
    "deci": _wrong_end,
    "deepseek2-ocr": _wrong_base,
    "mpt": _normed,
    "plamo2": _no_heads,
    # Of whose feed-forwards any matrix may be missing, as it reads them.
    **dict.fromkeys(("grok", "hy_v3", "mimo2", "step35"), _half_fed),
}


def assumptions_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None."""
    check = _CHECKS.get(header.architecture)
    return None if check is None else check(header)
