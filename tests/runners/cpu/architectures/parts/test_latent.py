"""Latent attention: any number of heads, long texts, what is stored, adapters, and files that are refused."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.errors import Incompatible
from segue.models.gguf import header
from segue.runners.cpu.architectures.hparams import hparams_of
from segue.runners.cpu.architectures.parts.latent import together
from segue.runners.cpu.architectures.scaling import SCALED
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.loader import obstacle
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step import latent as words
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.architectures.test_architectures import MOST_KL, divergences
from tests.runners.cpu.conftest import load
from tests.support.models import tiny_writer
from tests.support.models.layers.tiny_latent import TinyLatent
from tests.support.models.split_gguf import split_gguf
from tests.support.models.tiny_gguf import Weights
from tests.support.models.tiny_lora import merged, write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import Tiny, write

TINY = MODELS["deepseek2"]
TOKENS = random.Random(3).choices(range(256), k=300)
SPAN = Span(0, TOKENS[:60], 0, 60)


def read(runner: CpuRunner | LlamaRunner, chunk: int = 100) -> Logits:
    """Logits of all tokens, read in chunks."""
    rows = []
    for start in range(0, len(TOKENS), chunk):
        some = TOKENS[start : start + chunk]
        rows.append(runner.decode([Span(0, some, start, len(some))]).copy())
    runner.free(0)
    return np.concatenate(rows)


@pytest.mark.parametrize(
    ("heads", "rank"), [(1, 32), (5, 96), (16, 64), (22, 32), (16, 512)], ids=str
)
def test_bits_do_not_depend_on_how_many_rows_share_a_tile(
    tmp_path: Path, heads: int, rank: int
) -> None:
    """Heads that are worked on alone, together, and in groups; keys as wide as those of real files."""
    tiny = replace(TINY, latent=TinyLatent(heads=heads, rank=rank, values=32), layers=2)
    path = write(tmp_path / "x.gguf", tiny)
    runner = load(path, kv_bytes=4 << 20)
    whole = read(runner)
    for chunk in (240, 1, 3, 17):
        np.testing.assert_array_equal(read(runner, chunk), whole)
    runner.close()
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    assert divergences(read(judge), whole).mean() <= MOST_KL
    judge.close()


@pytest.mark.parametrize("name", ["deepseek2", "deepseek2, older"])
def test_bits_do_not_depend_on_threads_and_flavours(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    found, (own, *_) = set(), possible()
    for flavour in possible():
        target = this_target({VARIABLE: flavour.name})
        runner = load(path, target=target, threads=2 if flavour == own else 1, kv_bytes=2 << 20)
        found.add(read(runner).tobytes())
        runner.close()
    assert len(found) == 1


@pytest.mark.parametrize("name", ["deepseek2", "deepseek2, Lite", "deepseek2, older"])
def test_quantised_weights_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name], kind=gguf.GGMLQuantizationType.Q8_0)
    runner = load(path, threads=1)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    assert divergences(judge.decode([SPAN]), runner.decode([SPAN])).mean() < 0.01
    judge.close()
    runner.close()


def test_an_older_file_may_be_split(tmp_path: Path) -> None:
    """What is made of its tensors stands beside all files."""
    path = write(tmp_path / "x.gguf", MODELS["deepseek2, older"])
    count = len(header(path).tensors)
    first, *_ = split_gguf(path, tmp_path, [count // 2, count - count // 2])
    found = []
    for each in (path, first):
        runner = load(each, threads=1)
        found.append(runner.decode([SPAN]).tobytes())
        runner.close()
    assert found[0] == found[1]


def test_a_token_stores_one_key_and_no_value(tmp_path: Path) -> None:
    latent = TinyLatent(heads=16)
    path = write(tmp_path / "x.gguf", replace(TINY, latent=latent))
    runner = load(path, kv_bytes=1 << 20)
    each = TINY.layers * (latent.rank + latent.turned) * 2
    assert runner.capabilities.num_cells == (1 << 20) // (32 * each) * 32
    runner.close()


@pytest.mark.parametrize(
    ("heads", "expected"), [(1, 1), (16, 8), (20, 5), (128, 8), (7, 7), (11, 1)]
)
def test_some_heads_are_worked_on_together(heads: int, expected: int) -> None:
    assert together(heads) == expected


PARTS = {
    "norm of keys": (on.LATENT_KEYS, words.KEY_NORM),
    "norm of queries": (on.LATENT_KEYS, words.QUERY_NORM),
    "temperatures": (on.LATENT_QUERIES, words.TEMPERATURES),
    "neighbours": (on.LATENT_QUERIES, words.NEIGHBOURS),
    "products of heads": (on.LATENT_PRODUCTS, None),
}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_counts(tmp_path: Path, part: str) -> None:
    """Without it, logits are not llama.cpp's any more. Norms without weights have ones."""
    runner = load(write(tmp_path / "x.gguf", MODELS["mistral4"]), threads=1)
    truth = runner.decode([SPAN]).copy()
    runner.free(0)
    changed = runner.program.copy()
    phase, word = PARTS[part]
    own = changed[:, 0] == phase
    assert own.any()
    ones = np.ones(256, np.float32)
    without = ones.ctypes.data if "norm" in part else 0
    changed[own, 0 if word is None else word] = on.NOTHING if word is None else without
    runner.run_instead(changed)
    assert divergences(truth, runner.decode([SPAN])).mean() > 2 * MOST_KL
    runner.close()


# --- adapters ---

_NARROW = ("f_a", "f_b", "g_a", "g_b")  # matrices of delta nets


@pytest.mark.parametrize("name", ["deepseek2", "deepseek2, Lite", "kimi-linear", "bailingmoe3"])
def test_adapters_compute_what_merged_weights_do(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    kinds = ["attn_q", "attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_output", "output"]
    if "kda" in MODELS[name].mixer:  # six of their matrices are computed together
        kinds += ["attn_k", "attn_v", "attn_gate", "ssm_beta", *(f"ssm_{of}" for of in _NARROW)]
    names = [
        tensor.name
        for tensor in header(path).tensors
        if tensor.name.split(".")[-2] in kinds and len(tensor.shape) == 2
    ]
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=names, architecture=name.split(",")[0])
    assert obstacle(path, [str(lora)]) is None
    ours = load(path, adapters={"l": str(lora)})
    alone = load(merged(tmp_path / "m", path, (lora, 1)))
    adapted = Span(0, SPAN.tokens, 0, 60, ((0, 1.0),))
    found, expected = ours.decode([adapted]).copy(), alone.decode([SPAN])
    np.testing.assert_allclose(found, expected, atol=2e-3)
    ours.free(0)
    assert np.abs(found - ours.decode([SPAN])).max() > 0.1
    ours.close()
    alone.close()


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("deepseek2", "blk.1.attn_k_b.weight"),
        ("deepseek2", "blk.0.attn_v_b.weight"),
        ("deepseek2, older", "blk.1.attn_kv_b.weight"),
    ],
)
def test_adapters_of_what_makes_keys_and_values_are_refused(
    tmp_path: Path, name: str, tensor: str
) -> None:
    """By every runner: llama.cpp would pass over them."""
    path = write(tmp_path / "x.gguf", MODELS[name])
    lora = write_tiny_lora(tmp_path / "l.gguf", path, names=[tensor], architecture="deepseek2")
    with pytest.raises(Incompatible, match="keys and values of latents, which no runner adapts"):
        obstacle(path, [str(lora)])


# --- files ---


def test_gate_and_up_of_experts_may_be_one_tensor_after_layers_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tiny_writer._experts

    def fused(tiny: Tiny, weights: Weights) -> Iterator[tuple[str, NDArray[np.float32]]]:
        found = dict(usual(tiny, weights))
        both = [found.pop(f"ffn_{name}_exps.weight") for name in ("gate", "up")]
        yield from (found | {"ffn_gate_up_exps.weight": np.concatenate(both, 1)}).items()

    whole = write(tmp_path / "x.gguf", TINY)
    monkeypatch.setattr(tiny_writer, "_experts", fused)
    logits = []
    for path in (whole, write(tmp_path / "y.gguf", TINY)):
        runner = load(path, threads=1)
        logits.append(runner.decode([SPAN]).tobytes())
        runner.close()
    assert logits[0] == logits[1]


def test_a_file_that_does_not_say_how_experts_share_has_what_llama_cpp_takes(
    tmp_path: Path,
) -> None:
    given = header(write(tmp_path / "x.gguf", MODELS["deepseek2"]))
    assert hparams_of(given).routing == "softmax"
    told = {"deepseek2.block_count": 47, "deepseek2.vocab_size": 154880}
    found = replace(given, metadata={**given.metadata, **told})
    assert hparams_of(found).routing == "sigmoid"


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("deepseek2", {"attention.key_length_mla": 16}, "of which 16 turn"),
        ("deepseek2", {"attention.key_length_mla": 8}, "of which 16 turn"),
        ("deepseek2", {"attention.value_length_mla": 0}, "one's size in heads only"),
        ("deepseek2", {"attention.kv_lora_rank": 0}, "rank 0"),
        ("deepseek2", {"attention.kv_lora_rank": 2**31}, "are not those of rank"),
        ("deepseek2", {"attention.kv_lora_rank": -1}, "not a count"),
        ("deepseek2", {"attention.q_lora_rank": 2.5}, "not a count"),
        ("deepseek2", {"attention.key_length": 64}, "are not those of rank 32"),
        ("deepseek2", {"attention.value_length": 48}, "are not those of rank 32"),
        ("deepseek2", {"attention.head_count_kv": 4}, "4 heads share 4 keys"),
        ("deepseek2, older", {"attention.head_count_kv": 1}, "4 heads share 1 keys"),
        ("deepseek2, older", {"attention.value_length": 0}, "value_length is 0, not"),
        ("deepseek2", {"attention.temperature_scale": 0.5}, "temperatures have no length"),
        ("deepseek2", {SCALED: 1e29, "rope.scaling.factor": 4.0}, "scores are multiplied by"),
    ],
)
def test_what_makes_no_sense_is_computed_by_no_runner(
    tmp_path: Path, name: str, settings: dict[str, Any], reason: str
) -> None:
    """llama.cpp would end the process."""
    given = header(write(tmp_path / "x.gguf", MODELS[name]))
    own = {f"deepseek2.{key}": value for key, value in settings.items()}
    found = replace(given, metadata={**given.metadata, **own})
    assert senseless(given) is None
    assert reason in (senseless(found) or "")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attention.q_lora_rank": 2**31}, "tensor blk.0.attn_q_a.weight has the shape"),
        ({"attention.q_lora_rank": 0}, "lacks tensors (blk.0.attn_q.weight)"),
        ({"attention.value_length_mla": 64}, "has the shape"),
        ({"attention.head_count": 8}, "has the shape"),
        ({"rope.dimension_count": 0}, "does not say deepseek2.rope.dimension_count"),
        ({"attention.key_length_mla": 72}, "heads that do not turn are 56 wide"),
        ({"expert_gating_func": 3}, "neither by softmax nor by sigmoid"),
        ({"attention.indexer.head_count": 4}, "does not know: attention.indexer.head_count"),
        ({"attention.sliding_window": 16}, "does not know: attention.sliding_window"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    given = header(write(tmp_path / "x.gguf", TINY))
    own = {f"deepseek2.{key}": value for key, value in settings.items()}
    found = replace(given, metadata={**given.metadata, **own})
    assert reason in (supports(found) or "")
