"""Settings that converters write of architectures that do not read them."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from segue.models import gguf
from segue.models.gguf import GgufHeader, Value
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

YARN: dict[str, Value] = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 8.0,
    "rope.scaling.original_context_length": 128,
}
USUAL = 1.0 + 0.1 * math.log(8.0)


def saying(path: Path, name: str, **settings: Value) -> GgufHeader:
    header = gguf.header(write(path / "x.gguf", MODELS[name]))
    own = {f"{header.architecture}.{key}": value for key, value in settings.items()}
    return replace(header, metadata={**header.metadata, **own})


@pytest.mark.parametrize(
    ("name", "key", "as_computed", "other"),
    [
        ("llama", "attention.head_dim", 16, 32),
        ("deepseek", "expert_gating_func", 1, 2),
        ("llama4", "expert_gating_func", 2, 1),
        ("qwen3moe", "expert_group_count", 1, 2),
        ("qwen3moe", "expert_group_used_count", 1, None),
        ("command-r", "max_position_embeddings", 512, "many"),
        ("qwen3moe", "norm_top_k_prob", True, 1),
        ("qwen2moe", "norm_top_k_prob", None, True),
        ("olmo2", "rope.freq_base_swa", 10000.0, 20000.0),
        ("gemma3", "rope.local.freq_base", 10000.0, 1000000.0),
        ("mellum", "rope.scaling.yarn_ext_factor", 1.0, 2.0),
        ("llama", "rope.scaling.yarn_ext_factor", None, 1.0),
        ("llama", "rope.scaling.yarn_attn_factor", None, 1.0),
    ],
)
def test_what_is_computed_anyway_may_be_said(
    tmp_path: Path, name: str, key: str, as_computed: Value | None, other: Value | None
) -> None:
    if as_computed is not None:
        header = saying(tmp_path, name, **{key: as_computed})
        assert supports(header) is None
    if other is not None:
        refusal = supports(saying(tmp_path, name, **{key: other})) or ""
        assert f"settings it does not know: {key}" in refusal


@pytest.mark.parametrize(
    ("told", "is_known"), [(USUAL, True), (1.2079441, True), (1.0, False), (1.5, False)]
)
def test_the_magnitude_of_yarn_may_be_what_follows_from_its_factor(
    tmp_path: Path, told: float, is_known: bool
) -> None:
    """Olmo 3's files say so since December 2025."""
    key = "rope.scaling.yarn_attn_factor"
    refusal = supports(saying(tmp_path, "olmo2", **YARN, **{key: told}))
    assert refusal is None if is_known else f"does not know: {key}" in (refusal or "")


def test_files_of_hunyuan_may_count_one_expert(tmp_path: Path) -> None:
    """Which is the plain feed-forward: llama.cpp takes it for none."""
    header = saying(tmp_path, "hunyuan-dense", expert_count=1)
    assert supports(header) is None
    assert hparams_of(header).experts == 0


def test_scales_of_minicpm_are_usual_where_its_older_files_name_none(tmp_path: Path) -> None:
    header = gguf.header(write(tmp_path / "x.gguf", replace(MODELS["minicpm"], settings={})))
    assert supports(header) is None
    found = hparams_of(header)
    scales = (found.embedding_scale, found.residual_scale, found.logit_scale)
    assert scales == (12.0, 1.4 / math.sqrt(found.layers), 256 / found.width)
