"""Which settings the shape of a tensor follows from: a refusal names them beside the tensor."""

from collections.abc import Iterator

_EXPERTS = (
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "leading_dense_block_count",
    "interleave_moe_layer_step",
    "feed_forward_length",
)
_HEADS = (
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.key_length_mla",
    "attention.key_length_swa",
    "attention.value_length",
    "attention.value_length_mla",
    "attention.value_length_swa",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.sliding_window_pattern",
    "rope.dimension_count",
    "kda.head_dim",
)
_STATES = (
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "kda.head_dim",
)
RANKS = (
    "attention.decay_lora_rank",
    "attention.gate_lora_rank",
    "attention.iclr_lora_rank",
    "attention.value_residual_mix_lora_rank",
    "time_decay_extra_dim",
    "time_mix_extra_dim",
    "wkv.head_size",
)
# Those that decide which tensors there are.
DECIDING = (
    "block_count",
    "nextn_predict_layers",
    "attention.gate_lora_rank",
    "expert_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "embedding_length_per_layer_input",
    "rope.scaling.finetuned",
)
# By parts of names, of which the first that fits counts.
_SETTINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("position_embd", ("context_length",)),
    ("per_layer_", ("embedding_length_per_layer_input",)),
    ("_shexp", ("expert_shared_count", "expert_shared_feed_forward_length", *_EXPERTS)),
    ("_exps", _EXPERTS),
    ("ffn_gate_inp", _EXPERTS),
    ("exp_probs_b", _EXPERTS),
    ("ffn_", _EXPERTS),
    ("channel_mix_", ("feed_forward_length",)),
    ("time_mix_", ("attention.head_count_kv", *RANKS)),
    ("shortconv", ("shortconv.l_cache",)),
    ("ssm_", (*_STATES, "feed_forward_length", "attention.head_count", "attention.head_count_kv")),
    ("attn_", (*_HEADS, *_STATES[:-1])),
    ("inp_gate", ("embedding_length_per_layer_input",)),
    ("proj", ("embedding_length_per_layer_input",)),
    ("rope_", ("rope.dimension_count", "rope.scaling.type", "rope.scaling.finetuned")),
)


def settings_of(name: str) -> Iterator[str]:
    """The keys of settings, without the architecture, that say how wide this tensor is, and if there is one."""
    yield "embedding_length"
    if name.startswith("blk."):
        yield from ("block_count", "nextn_predict_layers", "full_attention_interval")
    yield from next((keys for part, keys in _SETTINGS if part in name), ())
