import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from segue.distributed.checkpoint import own_defaults, read_origin, read_weights
from segue.types import ModelDefaults
from tests.support.models.tiny_hf import write_safetensors


def test_sizes_are_read_from_the_headers(tmp_path: Path) -> None:
    tensors = {"a": np.zeros((3, 4), np.float32), "b": np.zeros(5, np.float32)}
    write_safetensors(tmp_path / "one.safetensors", tensors)
    write_safetensors(tmp_path / "two.safetensors", {"c": np.zeros(2, np.float32)})
    weights = read_weights(str(tmp_path))
    assert weights.num_params == 19
    assert weights.size_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_a_name_of_the_hub_has_none() -> None:
    assert read_weights("owner/name") == (0, 0)


# --- sampling defaults, with a stand-in for vLLM's configuration ---------------------------------

FILE = "generation_config.json"


class Config:
    """What vLLM's ModelConfig has of it, in its own words."""

    def __init__(
        self, folder: str = "owner/repo", source: str = "auto", said: Any = (), override: Any = ()
    ) -> None:
        self.model = folder
        self.generation_config = source
        self.override_generation_config = dict(override)
        self._said = dict(said)

    def try_get_generation_config(self) -> dict[str, Any]:
        return dict(self._said)

    def get_diff_sampling_param(self) -> dict[str, Any]:
        said = {} if self.generation_config == "vllm" else self.try_get_generation_config()
        said |= self.override_generation_config
        known = ("temperature", "top_k", "max_new_tokens")
        taken = {key: said[key] for key in known if said.get(key) is not None}
        if "max_new_tokens" in taken:
            taken["max_tokens"] = taken.pop("max_new_tokens")
        return taken


SAID = {"temperature": 0.6, "top_k": 20, "do_sample": False, "max_new_tokens": 2048}


def test_the_models_own_bound_nothing() -> None:
    assert own_defaults("tiny", Config(said=SAID)) == ModelDefaults(
        source=FILE, sampling={"temperature": 0.6, "top_k": 20}, is_greedy=True
    )


def test_those_that_are_named_bound_every_answer() -> None:
    own = own_defaults("tiny", Config(source="/folder", said=SAID))
    assert own is not None
    assert own.max_tokens == 2048
    own = own_defaults("tiny", Config(said=SAID, override={"max_new_tokens": 9, "top_k": 3}))
    assert own is not None
    assert (own.max_tokens, own.sampling["top_k"]) == (9, 3)


def test_off_leaves_what_overrides() -> None:
    assert own_defaults("tiny", Config(source="vllm", said=SAID)) is None
    own = own_defaults("tiny", Config(source="vllm", said=SAID, override={"temperature": 0.1}))
    assert own == ModelDefaults(source=FILE, sampling={"temperature": 0.1})


def test_what_vllm_would_refuse_with_every_request_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        own = own_defaults("tiny", Config(said={"temperature": -1, "top_k": 5}))
    assert own == ModelDefaults(source=FILE, sampling={"top_k": 5})
    assert f"tiny ({FILE}) is left out: temperature must be" in caplog.text


def test_a_file_that_vllm_passes_by_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_text("{")
    with caplog.at_level(logging.WARNING):
        assert own_defaults("tiny", Config(str(tmp_path))) is None
    assert f"{tmp_path / FILE} is not JSON" in caplog.text


# --- what pages tell -----------------------------------------------------------------------------

CONFIG = SimpleNamespace(
    model_type="qwen3_moe",
    max_position_embeddings=40960,
    hidden_size=2048,
    num_hidden_layers=48,
    num_attention_heads=32,
    num_key_value_heads=4,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    num_experts=128,
    intermediate_size=[1, 2],
    sliding_window=None,
    bos_token_id=151643,
    eos_token_id=[1, 2],
)


def test_the_configuration_is_told_under_ggufs_names(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "one.safetensors", {"a": np.zeros(3, np.float32)})
    origin = read_origin(str(tmp_path), CONFIG)
    (file,) = tmp_path.iterdir()
    assert (origin.format, origin.digest) == ("safetensors", "")
    assert (origin.num_bytes, origin.modified) == (file.stat().st_size, file.stat().st_mtime)
    assert origin.metadata == {
        "general.architecture": "qwen3_moe",
        "qwen3_moe.context_length": 40960,
        "qwen3_moe.embedding_length": 2048,
        "qwen3_moe.block_count": 48,
        "qwen3_moe.attention.head_count": 32,
        "qwen3_moe.attention.head_count_kv": 4,
        "qwen3_moe.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen3_moe.rope.freq_base": 1e6,
        "qwen3_moe.expert_count": 128,
        "tokenizer.ggml.bos_token_id": 151643,
    }


def test_a_name_of_the_hub_has_its_configuration_alone() -> None:
    origin = read_origin("owner/name", CONFIG)
    assert (origin.num_bytes, origin.modified) == (0, 0.0)
    assert origin.metadata["qwen3_moe.embedding_length"] == 2048
