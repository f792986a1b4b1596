"""Files of RWKV: which are refused, and by whom."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.architectures.test_hybrids import changed, obstacle_without
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("rwkv7", {"wkv.head_size": 0}, "does not say rwkv7.wkv.head_size"),
        ("rwkv7", {"wkv.head_size": 16}, "heads of states are 16 wide, not a multiple of 32"),
        ("rwkv7", {"attention.decay_lora_rank": 0}, "does not say rwkv7.attention.decay_lora_rank"),
        ("rwkv7", {"attention.gate_lora_rank": 0}, "does not say rwkv7.attention.gate_lora_rank"),
        ("rwkv7", {"attention.value_residual_mix_lora_rank": 48}, "ranks of 48, not a multiple of"),
        ("rwkv7", {"attention.iclr_lora_rank": 32}, "blk.0.time_mix_a1.weight has the shape"),
        ("rwkv7", {"feed_forward_length": 256}, "blk.0.channel_mix_key.weight has the shape"),
        ("rwkv7", {"rescale_every_n_layers": 6}, "does not know: rescale_every_n_layers"),
        ("arwkv7", {"attention.gate_lora_rank": 0}, "tensors it does not know: blk.N.time_mix_gN"),
        ("rwkv6", {"wkv.head_size": 0}, "does not say rwkv6.wkv.head_size"),
        ("rwkv6", {"wkv.head_size": 16}, "heads of states are 16 wide, not a multiple of 32"),
        ("rwkv6", {"wkv.head_size": 32}, "blk.0.time_mix_first.weight has the shape (64, 2)"),
        ("rwkv6", {"time_mix_extra_dim": 0}, "does not say rwkv6.time_mix_extra_dim"),
        ("rwkv6", {"time_mix_extra_dim": 48}, "ranks of 48, not a multiple of 32"),
        ("rwkv6", {"time_mix_extra_dim": 2**31}, "blk.0.time_mix_w1.weight has the shape"),
        ("rwkv6", {"time_decay_extra_dim": 16}, "ranks of 16, not a multiple of 32"),
        ("rwkv6", {"time_decay_extra_dim": 32}, "blk.0.time_mix_decay_w1.weight has the shape"),
        ("rwkv6", {"attention.decay_lora_rank": 32}, "does not know: attention.decay_lora_rank"),
        ("rwkv6qwen2", {"attention.head_count_kv": 4}, "blk.0.time_mix_key.weight has the shape"),
    ],
)
def test_what_the_table_does_not_know_is_left_to_llama_cpp(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    found = changed(header(write(tmp_path / "x.gguf", MODELS[name])), settings)
    assert reason in (supports(found) or "")


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("rwkv7", "output.weight"),
        ("rwkv7", "token_embd_norm.bias"),
        ("rwkv7", "blk.1.time_mix_v0.weight"),
        ("rwkv7", "blk.1.time_mix_ln.bias"),
        ("rwkv7", "blk.2.channel_mix_lerp_k.weight"),
        ("arwkv7", "output.weight"),
        ("arwkv7", "blk.0.time_mix_w2.weight"),
        ("rwkv6", "output.weight"),
        ("rwkv6", "blk.0.time_mix_w2.weight"),
        ("rwkv6", "blk.1.time_mix_first.weight"),
        ("rwkv6", "blk.2.channel_mix_lerp_r.weight"),
        ("rwkv6qwen2", "output.weight"),
        ("rwkv6qwen2", "blk.0.time_mix_lerp_fused.weight"),
        ("rwkv6qwen2", "blk.2.ffn_gate.weight"),
    ],
)
def test_tensors_are_all_needed(tmp_path: Path, name: str, lost: str) -> None:
    assert f"the file lacks tensors ({lost})" in (obstacle_without(tmp_path, name, lost) or "")


@pytest.mark.parametrize(
    ("name", "lost", "reason"),
    [
        ("arwkv7", "blk.1.time_mix_g1.weight", "has 6 mixtures of rows, not 5"),
        ("arwkv7, no gate, no norm", "", "has 5 mixtures of rows, not 6"),
    ],
)
def test_mixtures_of_rows_are_as_many_as_llama_cpp_multiplies(
    tmp_path: Path, name: str, lost: str, reason: str
) -> None:
    """It goes by the tensors of gates, and ends the process if there are others."""
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert senseless(found) is None
    tensors = [tensor for tensor in found.tensors if tensor.name != lost]
    if not lost:
        tensors += [replace(tensors[0], name=f"blk.1.time_mix_g{i}.weight") for i in (1, 2)]
    told = f"blk.1.time_mix_lerp_fused.weight {reason}"
    assert told in (senseless(replace(found, tensors=tuple(tensors))) or "")


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("rwkv6", {"token_shift_count": 1}, "layers keep 1 rows of the past, and mix 2"),
        ("rwkv6", {"attention.head_count_kv": 1}, "2 heads do not share 1 keys evenly"),
        ("rwkv6", {"wkv.head_size": 48}, "heads of 48 do not go evenly into 128 columns"),
        ("rwkv6", {"token_shift_count": 0}, "layers keep 0 rows of the past, and mix 2"),
        ("rwkv6qwen2", {"token_shift_count": 2}, "layers keep 2 rows of the past, and mix 1"),
        ("rwkv6qwen2", {"token_shift_count": 0}, "layers keep 0 rows of the past, and mix 1"),
        ("rwkv6qwen2", {"attention.head_count_kv": 3}, "4 heads do not share 3 keys evenly"),
        ("rwkv6qwen2", {"attention.head_count_kv": 8}, "4 heads do not share 8 keys evenly"),
    ],
)
def test_settings_of_rwkv_6_over_which_llama_cpp_ends(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert senseless(found) is None
    assert reason in (senseless(changed(found, settings)) or "")


@pytest.mark.parametrize(
    ("heads", "told"), [(0, None), (2, None), (1, "2 heads do not share 1 keys evenly")]
)
def test_heads_of_keys_are_those_of_queries_where_a_file_does_not_say(
    tmp_path: Path, heads: int, told: str | None
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["rwkv6"]))
    metadata = {**found.metadata, "rwkv6.attention.head_count": heads}
    del metadata["rwkv6.attention.head_count_kv"]
    assert (senseless(replace(found, metadata=metadata)) or "None").startswith(told or "None")


@pytest.mark.parametrize(("each", "is_wrong"), [((2, 2, 2), False), ((2, 1, 2), True)])
def test_heads_of_keys_may_be_listed_if_they_are_as_many(
    tmp_path: Path, each: tuple[int, ...], is_wrong: bool
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["rwkv6qwen2"]))
    key = "rwkv6qwen2.attention.head_count_kv"
    listed = replace(
        found,
        metadata={known: value for known, value in found.metadata.items() if known != key},
        array_lengths={**found.array_lengths, key: len(each)},
        short_arrays={**found.short_arrays, key: each},
    )
    assert ("4 heads do not share 1 keys evenly" in (senseless(listed) or "")) == is_wrong
    assert is_wrong or supports(listed) is None


@pytest.mark.parametrize(
    ("name", "lost", "added", "reason"),
    [
        ("rwkv6", "blk.1.time_mix_lerp_fused.weight", "", "has neither blk.1.time_mix_lerp_fused"),
        ("rwkv6, shares apart", "blk.2.time_mix_lerp_g.weight", "", "nor all five that it is made"),
        ("rwkv6qwen2", "", "blk.2.time_mix_first.weight", "beside blk.2.time_mix_first.weight"),
    ],
)
def test_tensors_of_rwkv_6_without_which_llama_cpp_ends(
    tmp_path: Path, name: str, lost: str, added: str, reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    tensors = [tensor for tensor in found.tensors if tensor.name != lost]
    tensors += [replace(found.tensors[0], name=added)] if added else []
    assert reason in (senseless(replace(found, tensors=tuple(tensors))) or "")


def test_shares_of_mixtures_are_one_tensor_or_five(tmp_path: Path) -> None:
    """llama.cpp passes over five beside the one."""
    found = header(write(tmp_path / "x.gguf", MODELS["rwkv6"]))
    [share] = [tensor for tensor in found.tensors if tensor.name == "blk.0.time_mix_lerp_x.weight"]
    more = replace(share, name="blk.0.time_mix_lerp_g.weight")
    told = supports(replace(found, tensors=(*found.tensors, more))) or ""
    assert "the file has tensors it does not know: blk.N.time_mix_lerp_g.weight" in told


@pytest.mark.parametrize("part", ["v0", "v1", "v2"])
def test_shares_of_values_in_the_first_layer_have_no_effect(tmp_path: Path, part: str) -> None:
    """Files of RWKV 7 have them, copied from elsewhere, or lack them."""
    found = header(write(tmp_path / "x.gguf", MODELS["rwkv7"]))
    lost = f"blk.0.time_mix_{part}.weight"
    assert lost in {tensor.name for tensor in found.tensors}
    left = tuple(tensor for tensor in found.tensors if tensor.name != lost)
    assert supports(replace(found, tensors=left)) is None


def test_vectors_may_have_further_dimensions_of_one(tmp_path: Path) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["rwkv7"]))

    def reshaped(shape: tuple[int, ...]) -> str | None:
        name = "blk.1.channel_mix_lerp_k.weight"
        tensors = (
            replace(each, shape=shape) if each.name == name else each for each in found.tensors
        )
        return supports(replace(found, tensors=tuple(tensors)))

    assert reshaped((128, 1, 1)) is None
    assert "has the shape (1, 128)" in (reshaped((1, 128)) or "")
