"""Tiny models with an MTP layer, and one in which that layer foresees all that the model says."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import WIDTH, Array, Tiny, write

_HEAD = (f"nextn.{name}" for name in ("shared_head_norm", "shared_head_head", "embed_tokens"))
_GLM = MODELS["glm4moe, normed heads, drafts"]


def _drafting(name: str) -> Tiny:
    own = replace(MODELS[name], next_layers=1)
    return own.with_settings(nextn_predict_layers=1)


DRAFTING: Mapping[str, Tiny] = {
    "qwen3next": _drafting("qwen3next"),
    "qwen35": MODELS["qwen35, drafts"],
    "qwen35moe": _drafting("qwen35moe"),
    "glm4moe": _GLM,
    "glm4moe, own head": replace(_GLM, draft_extras=(*_HEAD,)),
    "hy_v3": _drafting("hy_v3"),
    "cohere2moe": MODELS["cohere2moe, shared expert, RMS norms, drafts"],
    # As its converter lists them: the layer for drafts is not among them.
    "cohere2moe, windows told of others": MODELS[
        "cohere2moe, shared expert, RMS norms, drafts"
    ].with_settings(attention__sliding_window_pattern=[True, False, True, True, False]),
    "deepseek2": _drafting("deepseek2, by sigmoid"),
    "bailingmoe3": replace(
        _drafting("bailingmoe3"), draft_extras=("layer_output_norm",)
    ).with_settings(attention__head_count_kv=[0, 0, 1, 0, 1, 1]),
    "step35": MODELS["step35, factors, drafts"],
    "mimo2": MODELS["mimo2, one matrix, drafts"],
}


def write_foreseeing(path: Path, name: str = "qwen35") -> Path:
    """Layers add nothing, and the MTP layer takes tokens only: what follows depends on the last one."""

    def changed(name: str, tensor: Array) -> Array:
        if name.endswith(("attn_output.weight", "ssm_out.weight")) or "ffn_down" in name:
            return np.zeros_like(tensor)
        if name.endswith("eh_proj.weight"):
            return np.eye(WIDTH, 2 * WIDTH, dtype=np.float32)
        return np.ones_like(tensor) if name.endswith("nextn.enorm.weight") else tensor

    return write(path, DRAFTING[name], changed=changed)
