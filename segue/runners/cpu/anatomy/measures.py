"""A model's dimensions and scales, from the row of its architecture and the metadata of its file."""

from dataclasses import dataclass

import numpy as np

from segue.models.gguf import GgufHeader
from segue.runners.cpu.anatomy.families import FAMILIES, Family


@dataclass(frozen=True)
class Anatomy:
    """The dimensions and scales of one model. A scale or cap of 0 means none."""

    architecture: str
    layers: int
    next_layers: int  # after those, for drafts of tokens beyond the next: not computed
    width: int
    heads: int
    key_heads: int
    head_size: int
    hidden: int  # columns of the feed-forward
    vocab_size: int
    train_context: int
    epsilon: float
    pairs: int  # pairs of dimensions that RoPE rotates
    windows: tuple[int, ...]  # by layer: how many tokens it sees; 0: all
    rotated: tuple[bool, ...]  # by layer: whether RoPE rotates
    query_scale: float
    temperature: float  # by which queries grow with their position
    score_cap: float
    embedding_scale: float
    residual_scale: float
    logit_scale: float
    logit_cap: float
    is_parallel: bool  # attention and feed-forward take the same residual
    shares_norm: bool  # attention and feed-forward take the same normed rows
    has_fused_heads: bool  # queries, keys and values are one matrix
    has_head_norms: bool
    experts: int
    experts_used: int
    expert_hidden: int
    shared_hidden: int  # columns of the expert that every row takes; 0: none
    dense_layers: int  # the first layers, which have no experts
    renormalises: bool  # the shares of a row's experts are made 1 together
    share_scale: float

    @property
    def family(self) -> Family:
        return FAMILIES[self.architecture]

    @property
    def shared(self) -> int:
        """Query heads per key head."""
        return self.heads // self.key_heads

    def has_experts(self, layer: int) -> bool:
        return self.experts > 0 and layer >= self.dense_layers

    @property
    def queries(self) -> int:
        """Floats per row in all query heads together."""
        return self.heads * self.head_size

    @property
    def keys(self) -> int:
        return self.key_heads * self.head_size


def anatomy_of(header: GgufHeader) -> Anatomy:
    """The anatomy of a model that `supports` (support.py) accepts. Other models may raise."""
    family, names = FAMILIES[header.architecture], {tensor.name for tensor in header.tensors}
    heads, width, size = (
        header.count("attention.head_count"),
        header.count("embedding_length"),
        head_size(header),
    )
    next_layers = header.count("nextn_predict_layers")
    layers = header.count("block_count") - next_layers
    embedding = next(t for t in header.tensors if t.name == "token_embd.weight")
    is_parallel = _is_parallel(header, family, names)
    hidden = hidden_size(header)
    experts = header.count("expert_count") if family.experts != "none" else 0
    used = header.count("expert_used_count") if experts else 0
    expert_hidden = _expert_hidden(header, family, used) if experts else 0
    scale = width // heads if family.wide_scale == layers else size
    logit_scale = real(header, "logit_scale")
    windows = _windows(header, family, layers)
    return Anatomy(
        architecture=header.architecture,
        layers=layers,
        next_layers=next_layers,
        width=width,
        heads=heads,
        key_heads=header.count("attention.head_count_kv") or heads,
        head_size=size,
        hidden=hidden,
        vocab_size=embedding.shape[1] if len(embedding.shape) == 2 else 0,
        train_context=header.train_context,
        epsilon=_epsilon(header, family),
        pairs=0 if family.turns == "none" else (header.count("rope.dimension_count") or size) // 2,
        windows=windows,
        rotated=_rotated(family, windows),
        query_scale=real(header, "attention.scale") or 1.0 / float(np.sqrt(np.float64(scale))),
        temperature=real(header, "attention.temperature_scale"),
        score_cap=real(header, "attn_logit_softcapping", family.score_cap),
        embedding_scale=float(np.sqrt(np.float64(width)))
        if family.is_embedding_scaled
        else real(header, "embedding_scale"),
        residual_scale=real(header, "residual_scale"),
        logit_scale=1.0 / logit_scale if family.divides_logits and logit_scale else logit_scale,
        logit_cap=real(header, "final_logit_softcapping", family.logit_cap),
        is_parallel=is_parallel,
        shares_norm=is_parallel and "blk.0.ffn_norm.weight" not in names,
        has_fused_heads="blk.0.attn_qkv.weight" in names,
        has_head_norms="blk.0.attn_q_norm.weight" in names,
        experts=experts,
        experts_used=used,
        expert_hidden=expert_hidden,
        shared_hidden=_shared_hidden(header, family, expert_hidden) if experts else 0,
        dense_layers=header.count("leading_dense_block_count") if experts else 0,
        renormalises=bool(header.metadata.get(f"{header.architecture}.expert_weights_norm", False)),
        share_scale=real(header, "expert_weights_scale"),
    )  # fmt: skip


def real(header: GgufHeader, key: str, default: float = 0.0) -> float:
    """The number under this key of the file's architecture, or the default."""
    value = header.metadata.get(f"{header.architecture}.{key}", default)
    return float(value) if isinstance(value, int | float) else default


def head_size(header: GgufHeader) -> int:
    by_width = header.count("embedding_length") // header.count("attention.head_count")
    return header.count("attention.key_length") or by_width


def hidden_size(header: GgufHeader) -> int:
    """Columns of the feed-forward."""
    told = header.count("feed_forward_length")
    return told // 2 if FAMILIES[header.architecture].halves_hidden else told


def _epsilon(header: GgufHeader, family: Family) -> float:
    name = "layer_norm_rms_epsilon" if family.norm == "rms" else "layer_norm_epsilon"
    return real(header, f"attention.{name}", 1e-5)


def _is_parallel(header: GgufHeader, family: Family, names: set[str]) -> bool:
    if family.residuals == "by setting":
        return bool(header.metadata.get(f"{header.architecture}.use_parallel_residual", False))
    if family.residuals == "by norm":
        return "blk.0.ffn_norm.weight" not in names
    return family.residuals == "parallel"


def _windows(header: GgufHeader, family: Family, layers: int) -> tuple[int, ...]:
    if family.window is None or family.window.layers not in (0, layers):
        return (0,) * layers
    key = "attention.sliding_window"
    size = int(real(header, key, family.window.size))
    period = int(real(header, f"{key}_pattern", family.window.period))
    has = [period == 0 or layer % period < period - 1 for layer in range(layers)]
    if told := header.listed(f"{key}_pattern"):
        has = [bool(windowed) for windowed in told[:layers]]
    return tuple(size if windowed else 0 for windowed in has)


def _rotated(family: Family, windows: tuple[int, ...]) -> tuple[bool, ...]:
    if family.rotated == "windowed" and any(windows):
        return tuple(size > 0 for size in windows)
    is_every = family.rotated != "three of four"
    return tuple(is_every or layer % 4 < 3 for layer in range(len(windows)))


def _expert_hidden(header: GgufHeader, family: Family, used: int) -> int:
    """Columns per expert. A file that could have a key for it and has none counts those of all used experts."""
    key, hidden = "expert_feed_forward_length", header.count("feed_forward_length")
    own = hidden // max(1, used) if key in family.settings else hidden
    return header.count(key) or own


def _shared_hidden(header: GgufHeader, family: Family, expert_hidden: int) -> int:
    if family.shared_expert == "none":
        return 0
    told = header.count("expert_shared_feed_forward_length")
    told = told or header.count("expert_shared_count") * expert_hidden
    return told or (header.count("feed_forward_length") if family.shared_expert == "gated" else 0)
