"""Files whose layers carry states: which layers have what, and what is refused before any memory is taken."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import GgufHeader, header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def changed(found: GgufHeader, settings: dict[str, float]) -> GgufHeader:
    own = {f"{found.architecture}.{key}": value for key, value in settings.items()}
    return replace(found, metadata={**found.metadata, **own})


def obstacle_without(tmp_path: Path, name: str, lost: str) -> str | None:
    """Why the model's file cannot run if it lacks this tensor."""
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    left = tuple(tensor for tensor in found.tensors if tensor.name != lost)
    return supports(replace(found, tensors=left))


@pytest.mark.parametrize(
    ("name", "attends", "recurs", "feeds"),
    [
        ("lfm2", [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1]),
        ("granitehybrid", [0, 1, 0, 0], [1, 0, 1, 1], [1, 1, 1, 1]),
        ("nemotron_h", [0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]),
        ("falcon-h1", [1, 1, 1], [1, 1, 1], [1, 1, 1]),
        ("jamba with experts", [0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]),
        ("kimi-linear", [0, 0, 1, 0, 1], [1, 1, 0, 1, 0], [1, 1, 1, 1, 1]),
        ("plamo2", [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 1, 1]),
        ("mamba", [0, 0, 0], [1, 1, 1], [0, 0, 0]),
        ("mamba2", [0, 0, 0], [1, 1, 1], [0, 0, 0]),
        ("rwkv7", [0, 0, 0], [1, 1, 1], [1, 1, 1]),
        ("arwkv7", [0, 0, 0], [1, 1, 1], [1, 1, 1]),
    ],
)
def test_layers_are_told_apart(
    tmp_path: Path, name: str, attends: list[int], recurs: list[int], feeds: list[int]
) -> None:
    layers = hparams_of(header(write(tmp_path / "x.gguf", MODELS[name]))).by_layer
    assert [layer.attends for layer in layers] == [*map(bool, attends)]
    assert [layer.recurrence is not None for layer in layers] == [*map(bool, recurs)]
    assert [layer.hidden > 0 for layer in layers] == [*map(bool, feeds)]


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("lfm2", {"shortconv.l_cache": 1}, "its convolutions see 1 tokens"),
        ("lfm2", {"shortconv.l_cache": -1}, "l_cache is -1, not a count"),
        ("lfm2", {"shortconv.l_cache": 2**40}, "l_cache is 1099511627776, not a count"),
        ("lfm2", {"attention.value_length": 32}, "values are 32 wide, keys 16"),
        (
            "nemotron_h",
            {"attention.value_length": 0, "attention.key_length": 32},
            "value_length is 0, not a count other than 0",
        ),
        ("plamo2", {"ssm.conv_kernel": 1}, "its convolutions see 1 tokens"),
        ("plamo2", {"ssm.group_count": 1}, "8 heads in 1 groups are 128 wide and have 32 states"),
        ("plamo2", {"ssm.time_step_rank": 3}, "3 heads in 0 groups are 128 wide and have 32"),
        ("mamba2", {"ssm.conv_kernel": 1}, "its convolutions see 1 tokens"),
        ("mamba2", {"ssm.time_step_rank": 3}, "128 columns, 3 heads and 2 groups do not go evenly"),
        ("mamba2", {"ssm.group_count": 16}, "128 columns, 8 heads and 16 groups do not go evenly"),
        ("granitehybrid", {"ssm.inner_size": 256}, "states are 256 wide, not twice 64"),
        ("mamba", {"ssm.inner_size": 256}, "states are 256 wide, not twice 64"),
        ("jamba", {"ssm.inner_size": 64}, "states are 64 wide, not twice 64"),
        ("jamba", {"attention.value_length": 32}, "values are 32 wide, keys 16"),
        ("kimi-linear", {"ssm.conv_kernel": 1}, "its convolutions see 1 tokens"),
        ("kimi-linear", {"kda.head_dim": -1}, "kda.head_dim is -1, not a count"),
        ("kimi-linear", {"expert_gating_func": 5}, "expert_gating_func is 5"),
        ("lfm2moe", {"expert_gating_func": 5}, "expert_gating_func is 5"),
        ("lfm2", {"attention.head_count": 2}, "2 heads of 16 are not 64 wide"),
        ("jamba", {"attention.head_count": 8}, "8 heads of 16 are not 64 wide"),
        ("kimi-linear", {"attention.head_count": 0}, "0 heads of states are 32 wide"),
        ("kimi-linear", {"attention.key_length": 64}, "keys and values of (64, 32) numbers"),
        ("mamba", {"ssm.conv_kernel": 1}, "its convolutions see 1 tokens"),
        ("mamba", {"ssm.time_step_rank": -1}, "time_step_rank is -1, not a count"),
        ("mamba", {"ssm.dt_b_c_rms": 1}, "ssm.dt_b_c_rms is 1"),
        ("rwkv7", {"wkv.head_size": 48}, "heads of 48 do not go evenly into 128 columns"),
        ("rwkv7", {"wkv.head_size": -64}, "wkv.head_size is -64, not a count"),
        ("rwkv7", {"token_shift_count": 1}, "layers keep 1 rows of the past, and mix 2"),
        ("rwkv7", {"token_shift_count": 0}, "layers keep 0 rows of the past, and mix 2"),
        ("arwkv7", {"token_shift_count": 0}, "layers keep 0 rows of the past, and mix 1"),
        ("arwkv7", {"attention.gate_lora_rank": 2**40}, "lora_rank is 1099511627776, not a count"),
    ],
)
def test_what_would_end_llama_cpp_is_computed_by_no_runner(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    found = changed(header(write(tmp_path / "x.gguf", MODELS[name])), settings)
    assert reason in (senseless(found) or "")
    assert reason in (supports(found) or "")


@pytest.mark.parametrize("name", ["kimi-linear", "lfm2moe", "minimax-m2"])
def test_shares_by_nothing_would_end_llama_cpp_too(tmp_path: Path, name: str) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    assert senseless(changed(found, {"expert_gating_func": 0})) == "expert_gating_func is 0"


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("lfm2", {"shortconv.l_cache": 0}, "does not say lfm2.shortconv.l_cache"),
        ("lfm2", {"shortconv.l_cache": 17}, "its convolutions see 17 tokens, not 2 to 16"),
        ("lfm2", {"shortconv.l_cache": 4}, "blk.0.shortconv.conv.weight has the shape (3, 64)"),
        ("lfm2", {"attention.sliding_window": 64}, "does not know: attention.sliding_window"),
        ("lfm2moe", {"expert_gating_func": 1}, "shares of experts are not by sigmoid"),
        ("granitehybrid", {"ssm.state_size": 2**31}, "tensor blk.0.ssm_in.weight has the shape"),
        ("granitehybrid", {"ssm.state_size": 24}, "states are 24 wide, not a multiple of 16"),
        ("granitehybrid", {"ssm.dt_b_c_rms": True}, "does not know: ssm.dt_b_c_rms"),
        ("mamba2", {"ssm.time_step_rank": 16}, "heads of states are 8 wide, not a multiple of 16"),
        ("mamba2", {"ssm.inner_size": 2**20}, "tensor blk.0.ssm_in.weight has the shape"),
        ("mamba", {"ssm.time_step_rank": 0}, "does not say mamba.ssm.time_step_rank"),
        ("mamba", {"ssm.time_step_rank": 8}, "times are made of are 8 wide, not a multiple of 16"),
        ("mamba", {"ssm.time_step_rank": 48}, "blk.0.ssm_x.weight has the shape (128, 64)"),
        ("mamba", {"ssm.time_step_rank": 128}, "times are made of 128 numbers, more than 64"),
        ("mamba", {"ssm.state_size": 8}, "states are 8 wide, not a multiple of 16"),
        ("mamba", {"ssm.state_size": 2**31}, "tensor blk.0.ssm_x.weight has the shape"),
        ("jamba", {"ssm.dt_b_c_rms": True}, "does not know: ssm.dt_b_c_rms"),
        ("jamba", {"expert_weights_scale": 2.0}, "does not know: expert_weights_scale"),
        ("jamba with experts", {"expert_count": 16}, "blk.1.ffn_gate_inp.weight has the shape"),
        ("kimi-linear", {"kda.head_dim": 0}, "does not say kimi-linear.kda.head_dim"),
        ("kimi-linear", {"kda.head_dim": 16}, "states are 16 wide, not a multiple of 32"),
        ("kimi-linear", {"kda.head_dim": 64}, "tensor blk.0.attn_q.weight has the shape"),
        ("kimi-linear", {"kda.head_dim": 2**20}, "1048576 wide, more than the residual"),
        ("kimi-linear", {"attention.q_lora_rank": 32}, "does not know: attention.q_lora_rank"),
        ("kimi-linear", {"expert_gating_func": 1}, "shares of experts are not by sigmoid"),
        ("kimi-linear", {"ssm.conv_kernel": 3}, "blk.0.ssm_conv1d_q.weight has the shape (4, 1,"),
        ("kimi-linear", {"attention.head_count": 8}, "blk.0.attn_q.weight has the shape"),
        ("mamba", {"ssm.group_count": 2}, "does not know: ssm.group_count"),
        ("mamba", {"ssm.conv_kernel": 17}, "its convolutions see 17 tokens, not 2 to 16"),
        ("nemotron_h_moe", {"moe_latent_size": 32}, "does not know: moe_latent_size"),
        ("plamo2", {"ssm.state_size": 0}, "does not say plamo2.ssm.state_size"),
        ("plamo2", {"ssm.state_size": 24}, "states are 24 wide, not a multiple of 16"),
        ("plamo2", {"ssm.state_size": 2**31}, "tensor blk.0.ssm_x.weight has the shape"),
        ("plamo2", {"ssm.time_step_rank": 16}, "heads of states are 8 wide, not a multiple of 16"),
        ("plamo2", {"ssm.time_step_rank": 4}, "tensor blk.0.ssm_dt.weight has the shape"),
        ("plamo2", {"attention.key_length": 0}, "plamo2.attention.key_length is 0, not"),
        ("falcon-h1", {"ssm.group_count": 0}, "does not say falcon-h1.ssm.group_count"),
    ],
)
def test_what_the_table_does_not_know_is_left_to_llama_cpp(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    found = changed(header(write(tmp_path / "x.gguf", MODELS[name])), settings)
    assert reason in (supports(found) or "")


@pytest.mark.parametrize(
    ("name", "key", "each", "reason"),
    [
        ("lfm2", "attention.head_count_kv", (0, 3, 0, 2), "4 heads do not share 3 keys evenly"),
        ("lfm2", "attention.head_count_kv", (0, 2, 0), "is not a count for each of 4 layers"),
        (
            "lfm2",
            "attention.head_count_kv",
            (0, 2, 0, -2),
            "head_count_kv has -2, which is not a count",
        ),
        ("lfm2", "attention.head_count_kv", (2, 2, 0, 2), "lacks tensors (blk.0.attn_k.weight)"),
        ("lfm2", "feed_forward_length", (96, 96, 0, 96), "is not a count for each of 4 layers"),
        ("nemotron_h", "feed_forward_length", (96, 96, 0, 0, 96), "(blk.0.ffn_down.weight)"),
        ("nemotron_h", "feed_forward_length", (96,) * 5, "0 have attention and 0 a state"),
        ("jamba", "attention.head_count_kv", (0,) * 4, "0 have attention and 4 a state"),
        ("kimi-linear", "attention.head_count_kv", (0,) * 5, "0 have attention and 5 a state"),
        ("kimi-linear", "attention.head_count_kv", (0, 0, 2, 0, 1), "4 heads share 2 keys"),
        ("kimi-linear", "attention.head_count_kv", (1, 0, 1, 0, 1), "(blk.0.attn_k_b.weight)"),
        ("granitehybrid", "attention.head_count_kv", (2,) * 4, "4 have attention and 0 a state"),
        ("lfm2", "attention.head_count_kv", (0,) * 4, "0 have attention and 4 a state"),
        ("nemotron_h", "attention.head_count", (4, 4, 0, 4, 4), "with 0 heads and 2 keys"),
        ("nemotron_h_moe", "feed_forward_length", (0,) * 4, "is not a count for each of 5 layers"),
        ("lfm2moe", "feed_forward_length", (0,) * 4, "is not a count for each of 5 layers"),
        ("falcon-h1", "attention.head_count_kv", (0, 0, 0), "with 4 heads and 0 keys"),
    ],
)
def test_lists_of_layers_are_held_to_tensors(
    tmp_path: Path, name: str, key: str, each: tuple[int, ...], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    key = f"{name}.{key}"
    lengths = {**found.array_lengths, key: len(each)}
    metadata = {known: value for known, value in found.metadata.items() if known != key}
    lists = {**found.short_arrays, key: each}
    told = supports(replace(found, metadata=metadata, array_lengths=lengths, short_arrays=lists))
    assert reason in (told or "")


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("lfm2", "blk.0.shortconv.in_proj.weight"),
        ("lfm2", "token_embd_norm.weight"),
        ("granitehybrid", "blk.2.ssm_norm.weight"),
        ("nemotron_h", "blk.0.ssm_dt.bias"),
        ("falcon-h1", "blk.1.ssm_out.weight"),
        ("falcon-h1", "blk.1.ffn_norm"),
        ("jamba", "blk.0.ssm_dt_norm.weight"),
        ("jamba", "blk.3.ssm_c_norm.weight"),
        ("jamba with experts", "blk.1.ffn_up_exps.weight"),
        ("jamba with experts", "blk.1.ffn_gate_inp.weight"),
        ("kimi-linear", "blk.0.ssm_conv1d_v.weight"),
        ("kimi-linear", "blk.1.ssm_g_b.weight"),
        ("kimi-linear", "blk.3.ssm_a"),
        ("plamo2", "blk.0.ssm_b_norm"),
        ("plamo2", "blk.2.post_attention_norm"),
        ("plamo2", "blk.1.attn_k_norm.weight"),
        ("plamo2", "blk.1.post_ffw_norm"),
        ("mamba", "blk.2.ssm_dt.weight"),
        ("mamba", "blk.0.ssm_conv1d.bias"),
        ("mamba2", "blk.0.ssm_d"),
    ],
)
def test_tensors_of_states_are_all_needed(tmp_path: Path, name: str, lost: str) -> None:
    assert "the file lacks tensors" in (obstacle_without(tmp_path, name, lost) or "")


def test_heads_of_plamo_2_are_normed(tmp_path: Path) -> None:
    """Those of other families whose heads have weights of their own may have no norms."""
    found = header(write(tmp_path / "x.gguf", MODELS["plamo2"]))
    norms = ("attn_q_norm.weight", "attn_k_norm.weight")
    left = tuple(tensor for tensor in found.tensors if not tensor.name.endswith(norms))
    lost = "the file lacks tensors (blk.1.attn_k_norm.weight)"
    assert lost in (supports(replace(found, tensors=left)) or "")


def test_layers_with_experts_are_those_with_a_router(tmp_path: Path) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["jamba with experts"]))
    hparams = hparams_of(found)
    assert [hparams.has_experts(i) for i in range(4)] == [False, True, False, True]
    router = next(tensor for tensor in found.tensors if "gate_inp" in tensor.name)
    more = replace(router, name="blk.0.ffn_gate_inp.weight")
    told = supports(replace(found, tensors=(*found.tensors, more)))
    assert "the file lacks tensors (blk.0.ffn_down_exps.weight)" in (told or "")


@pytest.mark.parametrize(
    ("tensor", "count", "reason"),
    [
        ("blk.2.ffn_up_shexp.weight", 0, "beside blk.2.ffn_gate_inp.weight there is no shared"),
        ("blk.2.attn_q_a_norm.weight", 1, "queries have a rank of their own"),
        ("blk.2.attn_kv_b.weight", 1, "the matrices of keys and values are one tensor"),
    ],
)
def test_tensors_of_kimi_without_which_llama_cpp_ends(
    tmp_path: Path, tensor: str, count: int, reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["kimi-linear"]))
    others = tuple(each for each in found.tensors if each.name != tensor)
    named = tuple(replace(each, name=tensor) for each in found.tensors[:count])
    assert reason in (senseless(replace(found, tensors=others + named)) or "")


@pytest.mark.parametrize(
    ("each", "runner", "reason"),
    [
        ((4,) * 5, "llama", "kimi-linear.attention.head_count is not one number"),
        ((0,) * 5, "none", "0 heads of states are 32 wide"),
    ],
)
def test_heads_of_kimi_that_are_listed_are_left_to_llama_cpp(
    tmp_path: Path, each: tuple[int, ...], runner: str, reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["kimi-linear"]))
    key = "kimi-linear.attention.head_count"
    listed = replace(
        found,
        metadata={known: value for known, value in found.metadata.items() if known != key},
        array_lengths={**found.array_lengths, key: len(each)},
        short_arrays={**found.short_arrays, key: each},
    )
    assert reason in (supports(listed) or "")
    assert (senseless(listed) is None) == (runner == "llama")


def test_shapes_of_kimi_may_have_ones_behind_them(tmp_path: Path) -> None:
    """As the converter writes them; llama.cpp leaves the ones out when it quantises a file."""
    found = header(write(tmp_path / "x.gguf", MODELS["kimi-linear"]))
    ended = [tensor for tensor in found.tensors if tensor.shape[3:] == (1,)]
    assert len(ended) == 3 * 4
    short = {each.name: each.shape[: 2 if each.name.endswith("ssm_a") else 3] for each in ended}
    tensors = (replace(each, shape=short.get(each.name, each.shape)) for each in found.tensors)
    assert supports(replace(found, tensors=tuple(tensors))) is None
    wrong = (
        replace(each, shape=(1, 1, 1, 4)) if each.name == "blk.0.ssm_a" else each
        for each in found.tensors
    )
    told = supports(replace(found, tensors=tuple(wrong))) or ""
    assert "tensor blk.0.ssm_a has the shape (1, 1, 1, 4), not (1, 4)" in told


def test_factors_that_llama_cpp_passes_over_are_left_to_it(tmp_path: Path) -> None:
    tiny = replace(MODELS["falcon-h1"], factors=("rope_freqs",))
    told = supports(header(write(tmp_path / "x.gguf", tiny))) or ""
    assert "the file has tensors it does not know: rope_freqs.weight" in told


@pytest.mark.parametrize(
    ("name", "usual"),
    [("lfm2", "output_norm.weight"), ("falcon-h1", "blk.1.ffn_norm.weight")],
)
def test_a_tensor_has_one_name(tmp_path: Path, name: str, usual: str) -> None:
    """Which of the two counts would be a matter of their order."""
    found = header(write(tmp_path / "x.gguf", MODELS[name]))
    [norm] = [tensor for tensor in found.tensors if tensor.name == "blk.0.attn_norm.weight"]
    told = supports(replace(found, tensors=(*found.tensors, replace(norm, name=usual))))
    assert "the file has a tensor twice" in (told or "")


def test_layers_for_drafts_are_passed_over(tmp_path: Path) -> None:
    """Files count them among the layers, and have attention and experts in one."""
    found = header(write(tmp_path / "x.gguf", MODELS["nemotron_h_moe"]))
    more = (replace(found.tensors[0], name="blk.5.nextn.enorm.weight"),)
    lists = {
        "nemotron_h_moe.attention.head_count_kv": (0, 0, 2, 0, 0, 2),
        "nemotron_h_moe.feed_forward_length": (0, 32, 0, 0, 32, 32),
    }
    drafting = replace(
        changed(found, {"block_count": 6, "nextn_predict_layers": 1}),
        tensors=found.tensors + more,
        array_lengths={**found.array_lengths, **dict.fromkeys(lists, 6)},
        short_arrays={**found.short_arrays, **lists},
    )
    assert supports(drafting) is None
    assert hparams_of(drafting).by_layer == hparams_of(found).by_layer


def test_a_model_without_keys_has_room_for_long_texts(tmp_path: Path) -> None:
    """No cell takes memory; each slot can hold a text of full length."""
    path = write(tmp_path / "x.gguf", MODELS["mamba2"])
    runner = load(path, num_slots=4, kv_bytes=1, context_length=4096)
    assert runner.capabilities.num_cells == 4 * 4096
    runner.close()
