"""A model's hyperparameters: dimensions and scales, from the row of its architecture and the metadata of its file."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from segue.models.gguf import GgufHeader
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.families.keys import CLAMP
from segue.runners.cpu.architectures.family import Family, Norm, Routing, Turns
from segue.runners.cpu.architectures.layers import Layer, has_told_sections, head_size, layers_of
from segue.runners.cpu.architectures.parts.alibi import max_bias
from segue.runners.cpu.architectures.scaling import SCALED, latent_scale, real

ROUTER = "ffn_gate_inp.weight"
IN_ONE = "ssm_in.weight"
EPSILONS: Mapping[Norm, str] = {
    "rms": "attention.layer_norm_rms_epsilon",
    "layer": "attention.layer_norm_epsilon",
}
SOFTMAX, SIGMOID = 1, 2  # as an expert_gating_func
_EXPERTS_WITHOUT_NORMS = 128  # Llama 4 Maverick's


@dataclass(frozen=True)
class Hparams:
    """The dimensions and scales of one model. A scale or cap of 0 means none."""

    architecture: str
    by_layer: tuple[Layer, ...]
    next_layers: int  # that the file has after the others, for drafts of further tokens
    drafts: bool  # the first of those is computed: it is the last of `by_layer`
    turns: Turns
    width: int
    vocab_size: int
    train_context: int
    norm: Norm
    epsilon: float
    layer_columns: int  # of the embeddings that each layer has for itself; 0: none
    clamp: float  # the greatest size of numbers of queries, keys and values
    query_scale: float
    attended_scale: float  # of what attention gives
    temperature: float  # by which queries grow with their position
    max_bias: float  # of ALiBi, see alibi.py
    score_cap: float
    embedding_scale: float
    residual_scale: float
    halved_every: int  # the sum is halved after each that many-th layer; 0: after none
    logit_scale: float
    logit_cap: float
    is_parallel: bool  # attention and feed-forward take the same residual
    shares_norm: bool  # attention and feed-forward take the same normed rows
    has_fused_heads: bool  # queries, keys and values are one matrix
    has_fused_experts: bool  # gate and up of all experts are one tensor
    has_states_in_one: bool  # all that delta nets take, and their gates, are one tensor: see older_files/regrouped.py
    has_head_norms: bool
    experts: int
    experts_used: int
    expert_hidden: int
    shared_hidden: int  # columns of the expert that every row takes; 0: none
    is_fed_beside: bool  # the layer's own feed-forward is such an expert
    dense_layers: int  # the first layers, which have no experts
    expert_period: int  # of the others each that many-th has experts
    routed: frozenset[int]  # layers that have a router
    groups: int  # of experts: each row chooses among those of its best groups; 0: among all
    groups_used: int
    renormalises: bool  # the shares of a row's experts are made 1 together
    share_scale: float
    routing: Routing

    @property
    def family(self) -> Family:
        return FAMILIES[self.architecture]

    @property
    def layers(self) -> int:
        """How many there are, without one for drafts."""
        return len(self.by_layer) - self.drafts

    @property
    def has_windows(self) -> bool:
        return any(layer.window for layer in self.by_layer)

    @property
    def has_states(self) -> bool:
        """Whether layers carry a state from token to token."""
        return any(layer.recurrence is not None for layer in self.by_layer)

    @property
    def norms_all_heads(self) -> bool:
        """Whether queries and keys are normed, all heads together."""
        kind = self.family.head_norms
        return kind == "whole" or (kind == "whole or none" and self.has_head_norms)

    @property
    def fades_least(self) -> bool:
        """Whether states fade by no less than the file says, whatever its numbers are."""
        found = (layer.recurrence for layer in self.by_layer)
        return any(each is not None and each.least < 0 for each in found)

    def name_of(self, layer: int) -> str:
        """How the names of a layer's tensors begin."""
        return f"blk.{self.by_layer[layer].weights_of}."

    def has_experts(self, layer: int) -> bool:
        is_among = layer >= self.dense_layers and (layer + 1) % self.expert_period == 0
        if self.family.experts == "by layer":
            is_among = layer in self.routed
        is_fed = self.family.layers_are == "whole" or self.by_layer[layer].hidden > 0
        return self.experts > 0 and is_among and is_fed

    def is_fed_plainly(self, layer: int) -> bool:
        """Whether it has a feed-forward of its own, and not only experts: what a file says of its width counts."""
        if self.family.layers_are == "a mixer":
            return False
        is_beside = self.is_fed_beside or self.family.layers_are == "experts first"
        return is_beside or self.family.shared_expert == "dense" or not self.has_experts(layer)

    def fed_scale(self, layer: int) -> float:
        """The factor of what a layer's feed-forward gives."""
        is_halved = self.family.halves_experts and self.shared_hidden > 0
        return 0.5 if is_halved and self.has_experts(layer) else 0.0


def hparams_of(header: GgufHeader, drafts: bool = False) -> Hparams:
    """Those of a model that `supports` (support.py) accepts. Other models may raise.

    `drafts`: with its MTP layer, which `drafts_obstacle` accepts.
    """
    family, names = FAMILIES[header.architecture], {tensor.name for tensor in header.tensors}
    width, by_layer = header.count("embedding_length"), layers_of(header, family, drafts)
    layers = len(by_layer) - drafts
    is_parallel = _is_parallel(header, family, names)
    experts = header.count("expert_count") if family.experts != "none" else 0
    used = header.count("expert_used_count") if experts else 0
    expert_hidden = _expert_hidden(header, family, used) if experts else 0
    attending = next((i for i, layer in enumerate(by_layer) if layer.attends), 0)
    scale = width // by_layer[0].heads if family.wide_scale == layers else head_size(header)
    return Hparams(
        architecture=header.architecture,
        by_layer=by_layer,
        next_layers=header.count("nextn_predict_layers"),
        drafts=drafts,
        turns="halves" if has_told_sections(header, family) else family.turns,
        width=width,
        vocab_size=_vocab_size(header),
        train_context=header.train_context,
        norm=norm_of(header, family),
        epsilon=_epsilon(header, family),
        layer_columns=header.count("embedding_length_per_layer_input"),
        clamp=max(0.0, real(header, CLAMP)) if CLAMP in family.settings else 0.0,
        query_scale=_query_scale(header, family, by_layer[attending], scale),
        attended_scale=_attended_scale(header),
        temperature=family.temperature or real(header, "attention.temperature_scale"),
        max_bias=max_bias(header, family),
        score_cap=real(header, "attn_logit_softcapping", family.score_cap),
        embedding_scale=_embedding_scale(header, family),
        residual_scale=real(header, "residual_scale") or family.depth_scale / _root(layers),
        halved_every=header.count("rescale_every_n_layers")
        if family.is_feed_forward_shifted
        else 0,
        logit_scale=_logit_scale(header, family),
        logit_cap=real(header, "final_logit_softcapping", family.logit_cap),
        is_parallel=is_parallel,
        shares_norm=is_parallel and not _has_second_norm(family, names),
        has_fused_heads=f"blk.{attending}.attn_qkv.weight" in names,
        has_fused_experts=_has_any(names, "ffn_gate_up_exps.weight"),
        has_states_in_one=family.is_delta_grouped and _has_any(names, f".{IN_ONE}"),
        has_head_norms=f"blk.{attending}.attn_q_norm.weight" in names
        or (family.head_norms == "unweighted" and experts != _EXPERTS_WITHOUT_NORMS),
        experts=experts,
        experts_used=used,
        expert_hidden=expert_hidden,
        shared_hidden=_shared_hidden(header, family, expert_hidden) if experts else 0,
        is_fed_beside=family.shared_expert == "beside" and "blk.0.ffn_up.weight" in names,
        dense_layers=header.count("leading_dense_block_count") if experts else 0,
        expert_period=header.count("interleave_moe_layer_step") or 1,
        routed=frozenset(i for i in range(len(by_layer)) if f"blk.{i}.{ROUTER}" in names),
        groups=header.count("expert_group_count") if header.count("expert_group_count") > 1 else 0,
        groups_used=header.count("expert_group_used_count"),
        renormalises=bool(header.metadata.get(f"{header.architecture}.expert_weights_norm", False)),
        share_scale=real(header, "expert_weights_scale"),
        routing=_routing(header, family),
    )  # fmt: skip


def _vocab_size(header: GgufHeader) -> int:
    embedding = next(t for t in header.tensors if t.name == "token_embd.weight")
    return embedding.shape[1] if len(embedding.shape) == 2 else 0


def _has_any(names: set[str], end: str) -> bool:
    return any(name.endswith(end) for name in names)


def _has_second_norm(family: Family, names: set[str]) -> bool:
    """Whether layers have a norm before the feed-forward besides that before attention."""
    return bool({"blk.0.ffn_norm.weight", f"blk.0.{family.second_norm}.weight"} & names)


def _root(count: int) -> float:
    return float(np.sqrt(np.float64(count)))


def _embedding_scale(header: GgufHeader, family: Family) -> float:
    if family.is_embedding_scaled:
        return _root(header.count("embedding_length"))
    return real(header, "embedding_scale", family.embedding_factor)


def _logit_scale(header: GgufHeader, family: Family) -> float:
    told = real(header, "logit_scale")
    if not told:
        return family.logit_factor or family.logit_width / header.count("embedding_length")
    return 1.0 / told if family.divides_logits else told


def _query_scale(header: GgufHeader, family: Family, layer: Layer, size: int) -> float:
    if layer.latent is not None:
        return latent_scale(header, layer.latent.query, SCALED in family.settings)
    by_size = 1.0 / size if family.is_query_scaled_whole else 1.0 / _root(size)
    told = real(header, "attention.scale") or real(header, "attention.output_scale")
    return told or family.query_scale or by_size


def _attended_scale(header: GgufHeader) -> float:
    told = real(header, "attention.value_scale")
    return 0.0 if told == 1.0 else told


def _routing(header: GgufHeader, family: Family) -> Routing:
    if not family.routing.startswith("as told"):
        return family.routing
    layers, listed = header.count("block_count"), header.array_lengths
    tokens = header.count("vocab_size") or listed.get("tokenizer.ggml.tokens", 0)
    # The first files of GLM 4.7 Flash do not say it.
    usual = SIGMOID if layers in (47, 48) and tokens == 154880 else SOFTMAX
    told = header.count("expert_gating_func") or usual
    if family.routing == "as told":
        return "sigmoid" if told == SIGMOID else "softmax"
    return "sigmoid renormalised" if told == SIGMOID else "renormalised"


def norm_of(header: GgufHeader, family: Family) -> Norm:
    """The kind of the norms: the family's, or what the name of the file's epsilon says."""
    return "rms" if family.may_norm_by_rms and real(header, EPSILONS["rms"]) else family.norm


def epsilon_key(family: Family) -> str:
    """The key of the norms' epsilon that every file has."""
    return EPSILONS[family.epsilon_of or family.norm]


def _epsilon(header: GgufHeader, family: Family) -> float:
    return real(header, EPSILONS[norm_of(header, family)], real(header, epsilon_key(family)))


def _is_parallel(header: GgufHeader, family: Family, names: set[str]) -> bool:
    if family.residuals == "by setting":
        return bool(header.metadata.get(f"{header.architecture}.use_parallel_residual", False))
    if family.residuals == "by norm":
        return "blk.0.ffn_norm.weight" not in names
    return family.residuals == "parallel"


def _expert_hidden(header: GgufHeader, family: Family, used: int) -> int:
    """Columns per expert. A file that could have a key for it and has none counts those of all used experts."""
    key, hidden = "expert_feed_forward_length", header.count("feed_forward_length")
    is_all = key in family.settings and family.shared_expert != "beside"
    own = hidden // max(1, used) if is_all else hidden
    return header.count(key) or own


def _shared_hidden(header: GgufHeader, family: Family, expert_hidden: int) -> int:
    if family.shared_expert in ("none", "one"):
        return expert_hidden if family.shared_expert == "one" else 0
    told = header.count("expert_shared_feed_forward_length")
    told = told or header.count("expert_shared_count") * expert_hidden
    return told or (header.count("feed_forward_length") if family.shared_expert == "gated" else 0)
