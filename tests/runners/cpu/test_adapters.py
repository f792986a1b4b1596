"""LoRA adapters on the CPU runner: as merged weights, as llama.cpp, and the same bits in any company."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.seam import Logits, Span
from segue.models.gguf import header
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.tensors import computed
from segue.runners.cpu.loader import obstacle
from segue.runners.cpu.runner import CpuRunner
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.conftest import empty, load
from tests.runners.cpu.test_runner import TEXT, divergence
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import MATRICES, merged, write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

Mix = tuple[tuple[int, float], ...]

MIXES: tuple[Mix, ...] = ((), ((0, 1.0),), ((1, 0.7),), ((0, -0.5), (1, 1.5)), ((1, 2.0),))


def whole(runner: CpuRunner | LlamaRunner, mix: Mix, tokens: list[int] = TEXT) -> Logits:
    logits = runner.decode([Span(0, tokens, 0, len(tokens), mix)]).copy()
    runner.free(0)
    return logits


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("lora") / "base.gguf")


@pytest.fixture(scope="module")
def files(base: Path) -> dict[str, str]:
    """Other ranks and other matrices; the second is small and in halves."""
    some = [f"blk.1.{name}.weight" for name in ("attn_q", "ffn_down")]
    half = gguf.GGMLQuantizationType.F16
    one = write_tiny_lora(base.with_name("one.gguf"), base)
    two = write_tiny_lora(
        base.with_name("two.gguf"), base, names=some, rank=17, seed=1, tensor_type=half
    )
    return {"one": str(one), "two": str(two)}


@pytest.fixture(scope="module")
def adapted(base: Path, files: dict[str, str]) -> Iterator[CpuRunner]:
    runner = load(base, adapters=files)
    yield runner
    runner.close()


@pytest.mark.parametrize("rank", [1, 4])
def test_a_file_that_is_written_anew_changes_nothing(base: Path, tmp_path: Path, rank: int) -> None:
    """Nothing is read from it later: a file cut short would end the process."""
    file = write_tiny_lora(tmp_path / "x.gguf", base, rank=rank)
    runner = load(base, adapters={"x": str(file)})
    before = whole(runner, ((0, 1.0),))
    with file.open("r+b") as changed:
        changed.write(bytes(file.stat().st_size))
    assert whole(runner, ((0, 1.0),)).tobytes() == before.tobytes()
    runner.close()


@pytest.mark.parametrize("mix", MIXES)
def test_computes_what_merged_weights_do(
    tmp_path: Path, base: Path, files: dict[str, str], adapted: CpuRunner, mix: Mix
) -> None:
    paths = [Path(path) for path in files.values()]
    alone = load(merged(tmp_path / "m.gguf", base, *((paths[i], scale) for i, scale in mix)))
    expected = whole(alone, ())
    alone.close()
    found = whole(adapted, mix)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    if mix:
        assert np.abs(found - whole(adapted, ())).max() > 0.1


@pytest.mark.parametrize("mix", MIXES)
def test_computes_what_llama_cpp_does(
    base: Path, files: dict[str, str], adapted: CpuRunner, mix: Mix
) -> None:
    theirs = LlamaRunner(str(base), threads=1, adapters=files)
    np.testing.assert_allclose(whole(adapted, mix), whole(theirs, mix), atol=3e-2)
    theirs.close()


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_other_architectures(tmp_path: Path, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "b.gguf", architecture=architecture, tied=True)
    names = [f"blk.0.{name}.weight" for name in MATRICES]
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=names, architecture=architecture)
    ours, alone = (
        load(path, adapters={"l": str(lora)}),
        load(merged(tmp_path / "m", path, (lora, 1))),
    )
    np.testing.assert_allclose(whole(ours, ((0, 1.0),)), whole(alone, ()), atol=2e-3)
    ours.close()
    alone.close()


def matrices(path: Path) -> list[str]:
    """What an adapter may change here: every matrix but embeddings, routers, experts and a fused gate.

    Of models with latent attention llama.cpp passes over pairs for queries, keys and the head: see test_latent.py.
    """
    found = header(path)
    family = FAMILIES[found.architecture]
    is_fused = family.is_gate_fused
    kinds = [
        "attn_q",
        "attn_k",
        "attn_v",
        "attn_qkv",
        "attn_gate",
        "attn_output",
        "inp_gate",
        "proj",
        "laurel_l",
        "laurel_r",
        "ffn_gate",
        "ffn_up",
        "ffn_down",
        "ssm_in",
        "ssm_out",
        "ssm_x",
        "ssm_dt",
        "shortconv.in_proj",
        "shortconv.out_proj",
        "time_mix_receptance",
        "time_mix_key",
        "time_mix_value",
        "time_mix_gate",
        "time_mix_output",
        "channel_mix_key",
        "channel_mix_value",
        "channel_mix_receptance",
    ]
    # DeepSeek-OCR's head is one of those that llama.cpp passes over.
    kinds = kinds[5:] if family.is_latent else ["output", *kinds]
    kinds = kinds[1:] if family.has_plain_turns and family.experts == "all" else kinds
    wanted = {f"{kind}.weight" for kind in kinds if not (is_fused and kind == "ffn_up")}
    return [
        tensor.name
        for tensor in computed(found.tensors, hparams_of(found))
        if tensor.name.split(".", 2)[-1] in wanted or tensor.name in wanted
    ]


# Of Kimi Linear's and Ling 3's matrices llama.cpp passes over most; test_latent.py adapts them. Of Chameleon's logits
# it leaves some out in the first row only. Of a delta net's inputs in one matrix adapters are refused.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, tiny in MODELS.items()
        if name != "chameleon" and "kda" not in tiny.mixer and tiny.delta != "in one"
    ],
)
def test_every_architecture_computes_what_llama_cpp_does(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "b.gguf", MODELS[name])
    named = matrices(path)
    assert len(named) >= 3 * 2
    architecture = MODELS[name].architecture
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=named, architecture=architecture)
    assert obstacle(path, [str(lora)]) is None
    ours, theirs = (
        load(path, adapters={"l": str(lora)}, threads=1),
        LlamaRunner(str(path), threads=1, kv_precision="f32", adapters={"l": str(lora)}),
    )
    mix: Mix = ((0, 0.8),)
    found, expected = whole(ours, mix), whole(theirs, mix)
    error = divergence(found, expected)
    assert error < 0.0003
    assert divergence(found, whole(ours, ())) > max(20 * error, 1e-5)
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    [
        ("phi3", "blk.0.ffn_up.weight", "gate and up as one matrix"),
        ("llama with experts", "blk.1.ffn_down_exps.weight", "it adapts experts"),
        ("gpt-oss", "blk.1.ffn_up_exps.weight", "it adapts experts"),
        ("qwen3next, in one", "blk.0.ssm_in.weight", "it adapts what is two matrices here"),
    ],
)
def test_what_is_not_computed_goes_to_llama_cpp(
    tmp_path: Path, name: str, tensor: str, reason: str
) -> None:
    path = write(tmp_path / "b.gguf", MODELS[name])
    architecture = MODELS[name].architecture
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=[tensor], architecture=architecture)
    assert reason in (obstacle(path, [str(lora)]) or "")
    theirs = LlamaRunner(str(path), threads=1, adapters={"l": str(lora)})
    assert np.abs(whole(theirs, ((0, 1.0),)) - whole(theirs, ())).max() > 0.01
    theirs.close()


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("lfm2", "blk.0.shortconv.conv.weight"),
        ("mamba2", "blk.0.ssm_conv1d.weight"),
        ("gemma3n", "blk.0.altup_predict_coef.weight"),
    ],
)
def test_what_is_no_matrix_is_refused(tmp_path: Path, name: str, tensor: str) -> None:
    path = write(tmp_path / "b.gguf", MODELS[name])
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=[tensor], rank=1, architecture=name)
    assert f"it adapts what is no matrix ({tensor})" in (obstacle(path, [str(lora)]) or "")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("rwkv6", ("w1", "decay_w1", "decay_w2")),
        ("rwkv6qwen2", ("w1", "decay_w1", "decay_w2")),
        ("rwkv7", ("w1", "w2", "a1", "a2", "v1", "v2", "g1", "g2")),
    ],
)
def test_pairs_of_rwkv_which_llama_cpp_passes_over(
    tmp_path: Path, name: str, parts: tuple[str, ...]
) -> None:
    path = write(tmp_path / "b.gguf", MODELS[name])
    names = [f"blk.1.time_mix_{part}.weight" for part in parts]
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=names, architecture=name)
    ours, alone, theirs = (
        load(path, adapters={"l": str(lora)}),
        load(merged(tmp_path / "m", path, (lora, 1))),
        LlamaRunner(str(path), threads=1, adapters={"l": str(lora)}),
    )
    found = whole(ours, ((0, 1.0),))
    assert divergence(found, whole(alone, ())) < 1e-6
    assert divergence(found, whole(ours, ())) > 1e-3
    np.testing.assert_array_equal(whole(theirs, ((0, 1.0),)), whole(theirs, ()))
    for runner in (ours, alone, theirs):
        runner.close()


@pytest.mark.parametrize(
    ("name", "tensor"), [("rwkv6", "blk.1.time_mix_w2.weight"), ("gemma3n", "altup_proj.weight")]
)
def test_several_matrices_in_one_tensor_are_not_called_experts(
    tmp_path: Path, name: str, tensor: str
) -> None:
    path = write(tmp_path / "b.gguf", MODELS[name])
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=[tensor], architecture=name)
    told = f"it adapts several matrices in one tensor ({tensor})"
    assert told in (obstacle(path, [str(lora)]) or "")


def test_of_layers_that_are_not_computed_has_no_effect(tmp_path: Path) -> None:
    path = write(tmp_path / "b.gguf", MODELS["glm4moe, normed heads, drafts"])
    lora = write_tiny_lora(
        tmp_path / "l.gguf", path, names=["blk.3.attn_q.weight"], architecture="glm4moe"
    )
    runner = load(path, adapters={"l": str(lora)})
    np.testing.assert_array_equal(whole(runner, ((0, 1.0),)), whole(runner, ()))
    runner.close()


def test_on_quantised_weights(tmp_path: Path) -> None:
    """The pair works on rows before they are rounded to 8 bits."""
    kind = gguf.GGMLQuantizationType.Q8_0
    floats, small = (
        write_tiny_gguf(tmp_path / "f"),
        write_tiny_gguf(tmp_path / "q", tensor_type=kind),
    )
    lora = write_tiny_lora(tmp_path / "l", small, tensor_type=kind)
    ours, truth = (
        load(small, adapters={"l": str(lora)}),
        load(merged(tmp_path / "m", floats, (lora, 1))),
    )
    assert divergence(whole(ours, ((0, 1.0),)), whole(truth, ())) < 0.01
    ours.close()
    truth.close()


def test_rows_without_adapters_have_the_bits_of_a_model_without_any(
    base: Path, adapted: CpuRunner
) -> None:
    plain = load(base)
    expected = whole(plain, ())
    plain.close()
    spans = [Span(0, TEXT, 0, len(TEXT)), Span(1, TEXT, 0, 1, ((0, 1.0),))]
    assert np.array_equal(adapted.decode(spans)[: len(TEXT)], expected)
    empty(adapted)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(MIXES), st.integers(1, 12), st.integers(0, 40)),
        min_size=1,
        max_size=5,
    )
)
def test_a_mixed_batch_gives_each_row_what_it_has_alone(
    adapted: CpuRunner, plan: list[tuple[Mix, int, int]]
) -> None:
    """A first step of prompts of various lengths, then one of a token each: both mixed, in one step."""
    empty(adapted)
    prompts = [list(TEXT[start : start + length]) for _, length, start in plan]
    read = [Span(i, p, 0, 1, plan[i][0]) for i, p in enumerate(prompts)]
    after = [Span(i, [65], len(p), 1, plan[i][0]) for i, p in enumerate(prompts)]
    together = [adapted.decode(spans).copy() for spans in (read, after)]
    empty(adapted)
    for i in range(len(plan)):
        for rows, span in ((together[0], read[i]), (together[1], after[i])):
            assert np.array_equal(adapted.decode([span])[0], rows[i])
        adapted.free(i)
