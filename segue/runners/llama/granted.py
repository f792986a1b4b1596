"""What llama.cpp takes for granted of some architectures: it ends the process where a file says otherwise."""

from segue.models.gguf import GgufHeader

_BASE = 10000.0  # of DeepSeek-OCR's positions
_OPTIONAL = ("grok", "hy_v3", "mimo2", "step35")  # of their feed-forwards any matrix may be missing
_PICTURES = 8196  # tokens of Chameleon's pictures end there


def granted_obstacle(header: GgufHeader) -> str | None:
    """Why llama.cpp cannot run this file, or None."""
    own = {"chameleon": _wrong_tokens, "deci": _wrong_end, "deepseek2-ocr": _wrong_base}
    own |= dict.fromkeys(_OPTIONAL, _half_fed)
    found = own.get(header.architecture)
    return None if found is None else found(header)


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
