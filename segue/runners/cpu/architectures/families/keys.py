"""Names in GGUF files that rows of several architectures share: settings, and products with a bias."""

CLAMP = "attention.clamp_kqv"  # a bound of queries, keys and values
EXPERTS = ("expert_count", "expert_used_count")
GROUPS = ("expert_group_count", "expert_group_used_count")
WINDOWS = (
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.freq_base_swa",
)
OF_WINDOWS = ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa")
FEED_FORWARD = ("ffn_gate", "ffn_up", "ffn_down")
PLAIN = ("attn_output", "ffn_up", "ffn_down")
AFTER = ("post_attention_norm", "post_ffw_norm")
MIXTURE = (*EXPERTS, "expert_feed_forward_length")
SHARED = "expert_shared_feed_forward_length"
DENSE_FIRST = (
    *MIXTURE,
    "leading_dense_block_count",
    "expert_shared_count",
    "expert_weights_scale",
)
SCALES = ("attention.scale", "embedding_scale", "residual_scale", "logit_scale")
SIGMOID = (*DENSE_FIRST, "expert_weights_norm", "expert_gating_func", *GROUPS)
SECTIONS = "rope.dimension_sections"
PICTURES = (SECTIONS, "n_deepstack_layers")  # layers that add what a picture gives; texts add 0
