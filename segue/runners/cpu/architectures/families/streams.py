"""Rows of the table of architectures: several residuals side by side."""

from collections.abc import Mapping

from segue.runners.cpu.architectures.families.keys import AFTER, WINDOWS
from segue.runners.cpu.architectures.family import Family, Window

STREAMS: Mapping[str, Family] = {
    "gemma3n": Family(
        after=AFTER,
        head_norms="each",
        norms_values=True,
        activation="gelu",
        has_streams=True,
        window=Window(5, base=10000.0, is_plain=True, is_magnified=True),
        query_scale=1.0,
        is_embedding_scaled=True,
        logit_cap=30.0,
        settings=(
            *WINDOWS,
            "activation_sparsity_scale",
            "altup.active_idx",
            "altup.num_inputs",
            "attention.shared_kv_layers",
            "embedding_length_per_layer_input",
            "final_logit_softcapping",
        ),
        needed=("attention.sliding_window", "embedding_length_per_layer_input"),
    ),
}
