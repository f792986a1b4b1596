"""Every architecture of the table: a tiny model with random weights here, on llama.cpp, and as bits written down."""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.errors import ModelUnavailable
from segue.models.gguf import header
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.hparams import epsilon_key, hparams_of
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from segue.runners.cpu.products.processor import VARIABLE, possible, this_target
from segue.runners.cpu.runner import CpuRunner
from segue.runners.llama.runner import LlamaRunner
from tests.runners.cpu.architectures.known_bits import BITS, BITS_OF_Q8
from tests.runners.cpu.conftest import load, soil
from tests.support.models.tiny_models import DEEP, MODELS
from tests.support.models.tiny_writer import write

# In the mean: where two experts are as good as equal, a token may get the other one.
MOST_KL = 0.003
# Of half of the tokens. Keys and values are halves here and floats there.
MOST_MEDIAN_KL = 2e-5
NEAR_TIE = 0.005
# llama.cpp takes 0 where the file names none.
OWN_EPSILON = ("arwkv7", "qwen2vl", "rwkv6", "rwkv6qwen2", "rwkv7")
LENGTH, CONTINUED = 40, 32
TEXT = random.Random(1).choices(range(256), k=90)
Named = tuple[str, Path, CpuRunner]  # a model's name, its file and a runner of it


def divergences(truth: Logits, other: Logits) -> NDArray[np.float64]:
    p, q = (_log_probabilities(logits.astype(np.float64)) for logits in (truth, other))
    found: NDArray[np.float64] = (np.exp(p) * (p - q)).sum(-1)
    return found


def _log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def read_and_continue(runner: CpuRunner, prompt: list[int], num_drawn: int) -> Logits:
    """Logits of a prompt's tokens, and of its most likely continuation, token by token."""
    rows = runner.decode([Span(0, prompt, 0, len(prompt))]).copy()
    for place in range(len(prompt), len(prompt) + num_drawn - 1):
        row = runner.decode([Span(0, [int(rows[-1].argmax())], place, 1)])
        rows = np.concatenate([rows, row])
    return rows


def compare(
    path: Path, seed: int, num_drawn: int = CONTINUED, own: CpuRunner | None = None
) -> tuple[NDArray[np.float64], float | None]:
    """The divergence of each token from llama.cpp on a text of this seed, and where continuations differ: by how much
    llama.cpp prefers its token there to the next best. `own`: a runner of this model that is empty.
    """
    prompt = random.Random(100 + seed).choices(range(256), k=LENGTH)
    runner = own or load(path, threads=1, num_slots=1, max_rows=64, kv_bytes=4 << 20)
    mine = read_and_continue(runner, prompt, num_drawn)
    runner.free(0) if own else runner.close()
    chosen = mine[LENGTH - 1 :].argmax(-1)
    # llama.cpp reads all of it at once: up to the first token that it would not have chosen, that is what it continues.
    text = [*prompt, *chosen[:-1].tolist()]
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32", num_slots=1, max_rows=128)
    truth = judge.decode([Span(0, text, 0, len(text))]).copy()
    judge.close()
    first, end = FAMILIES[header(path).architecture].unsaid
    truth[:, first:end] = np.finfo(np.float32).min  # llama.cpp says so in the first row only
    found = divergences(truth[:LENGTH], mine[:LENGTH])
    differs = chosen != truth[LENGTH - 1 :].argmax(-1)
    if not differs.any():
        return found, None
    second, best = np.sort(truth[LENGTH - 1 + differs.argmax()])[-2:]
    return found, float(best - second)


@pytest.fixture(scope="module", params=MODELS)
def tiny(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Named]:
    path = write(tmp_path_factory.mktemp("tiny") / "x.gguf", MODELS[request.param])
    runner = load(path, threads=1, kv_bytes=1 << 20)
    yield request.param, path, runner
    runner.close()


def test_every_architecture_has_a_tiny_model() -> None:
    assert {model.architecture for model in MODELS.values()} == {*FAMILIES}


@pytest.mark.parametrize("architecture", FAMILIES)
def test_files_without_a_context_or_an_epsilon_are_refused_here_as_there(
    tmp_path: Path, architecture: str
) -> None:
    """Both were taken to be what most files say."""
    tiny = next(each for each in MODELS.values() if each.architecture == architecture)
    path = write(tmp_path / "x.gguf", tiny)
    found, content = header(path), path.read_bytes()
    for key in ("context_length", epsilon_key(FAMILIES[architecture])):
        name = f"{architecture}.{key}"
        left = {other: value for other, value in found.metadata.items() if other != name}
        assert supports(replace(found, metadata=left)) == f"the file does not say {name}"
        if "epsilon" in key:
            assert supports(replace(found, metadata={**left, name: 0.0})) is None
        path.write_bytes(content.replace(name.encode(), name[:-1].encode() + b"_"))
        if "epsilon" in key and architecture in OWN_EPSILON:
            LlamaRunner(str(path), threads=1, num_slots=1, max_rows=8).close()
            continue
        with pytest.raises(ModelUnavailable, match=r"key not found|missing .* norm epsilon"):
            LlamaRunner(str(path), threads=1, num_slots=1, max_rows=8)


@pytest.mark.parametrize("architecture", ["nemotron_h", "nemotron_h_moe"])
def test_an_epsilon_may_be_named_after_the_other_norm(tmp_path: Path, architecture: str) -> None:
    """As llama.cpp takes it: its own name counts first."""
    settings = {"attention__layer_norm_epsilon": 0.5, "attention__layer_norm_rms_epsilon": 0.25}
    found = header(write(tmp_path / "x.gguf", MODELS[architecture].with_settings(**settings)))
    assert hparams_of(found).epsilon == 0.25
    left = {key: value for key, value in found.metadata.items() if "rms_epsilon" not in key}
    assert supports(replace(found, metadata=left)) is None
    assert hparams_of(replace(found, metadata=left)).epsilon == 0.5


def test_two_models_of_each_agree_with_llama_cpp(tiny: Named, tmp_path: Path) -> None:
    """Two seeds of weights, with a text each; the first model is that of other tests too."""
    name, path, runner = tiny
    other = write(tmp_path / "x.gguf", MODELS[name], seed=1)
    found = [compare(path, seed=0, own=runner), compare(other, seed=1)]
    each = np.concatenate([divergence for divergence, _ in found])
    assert each.mean() <= MOST_KL
    assert np.median(each) <= MOST_MEDIAN_KL
    margins = [margin for _, margin in found if margin is not None]
    assert len(margins) <= 1
    assert all(margin < NEAR_TIE for margin in margins)  # two tokens are as good as equal


@pytest.mark.parametrize("name", DEEP)
def test_deep_models_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    each, margin = compare(write(tmp_path / "x.gguf", DEEP[name]), seed=0, num_drawn=8)
    assert each.mean() <= MOST_KL
    assert margin is None


def test_bits_are_those_of_every_machine_however_a_text_is_cut(tiny: Named) -> None:
    """And whatever was in the memory before."""
    name, _, runner = tiny
    soil(runner)
    whole = runner.decode([Span(0, TEXT, 0, len(TEXT))]).copy()
    beside = [Span(1, TEXT[5:35], 0, 1), Span(2, TEXT[50:], 0, 1)]
    rows = []
    for start, end in pairwise([0, 1, 2, 9, 50, 51, len(TEXT)]):
        spans = [Span(3, TEXT[start:end], start, end - start)]
        others = beside if start == 9 else []
        rows.append(runner.decode([*others, *spans])[len(others) :].copy())
    for slot in range(4):
        runner.free(slot)
    np.testing.assert_array_equal(np.concatenate(rows), whole)
    assert hashlib.sha256(whole.tobytes()).hexdigest() == BITS[name]


@pytest.mark.parametrize("name", MODELS)
def test_bits_of_quantised_weights_are_those_of_every_machine(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name], kind=gguf.GGMLQuantizationType.Q8_0)
    runner = load(path, threads=1)
    logits = runner.decode([Span(0, TEXT, 0, len(TEXT))])
    assert hashlib.sha256(logits.tobytes()).hexdigest() == BITS_OF_Q8[name]
    runner.close()


@pytest.mark.parametrize(
    "name",
    [
        "gpt-oss",
        "gemma2",
        "qwen2moe",
        "phi2",
        "spark2_5",
        "laguna",
        "maple",
        "smallthinker",
        "nanbeige",
        "hrm_text",
        "talkie",
        "gemma4, embeddings of layers",
        "gemma4 with experts",
        "gemma3n",
        "qwen35",
        "qwen3next",
        "lfm2",
        "granitehybrid",
        "nemotron_h_moe",
        "falcon-h1",
        "mamba, normed, of an odd rank",
        "jamba with experts",
        "kimi-linear",
        "plamo2",
        "step35",
        "mimo2",
        "bailingmoe3",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
        "refact",
    ],
)
def test_bits_do_not_depend_on_threads_and_flavours(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    own, *_ = possible()
    for flavour in possible():
        target = this_target({VARIABLE: flavour.name})
        runner = load(path, target=target, threads=2 if flavour == own else 1)
        logits = runner.decode([Span(0, TEXT, 0, len(TEXT))])
        assert hashlib.sha256(logits.tobytes()).hexdigest() == BITS[name]
        runner.close()


@pytest.mark.parametrize(
    "name",
    [
        "llama with experts",
        "qwen2moe",
        "phi3",
        "gpt2",
        "smallthinker",
        "gemma4 with experts",
        "gemma3n",
        "qwen35",
        "qwen3next",
        "lfm2",
        "granitehybrid",
        "nemotron_h_moe",
        "mamba",
        "jamba with experts",
        "kimi-linear",
        "plamo2",
        "rwkv6",
        "rwkv7",
    ],
)
def test_quantised_weights_agree_with_llama_cpp(tmp_path: Path, name: str) -> None:
    """Experts and fused matrices are cut out of the file's tensors."""
    path = write(tmp_path / "x.gguf", MODELS[name], kind=gguf.GGMLQuantizationType.Q8_0)
    runner = load(path, threads=1, kv_bytes=4 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32")
    span = Span(0, TEXT, 0, len(TEXT))
    assert divergences(judge.decode([span]), runner.decode([span])).mean() < 0.01
    judge.close()
    runner.close()


@pytest.mark.parametrize(
    "name", ["gemma2", "gpt-oss", "gemma3n", "gemma4", "gemma4, embeddings of layers", "mimo2"]
)
def test_windows_reach_over_segments_of_attention(tmp_path: Path, name: str) -> None:
    tiny = MODELS[name].with_settings(context_length=1024, attention__sliding_window=300)
    path = write(tmp_path / "x.gguf", tiny)
    tokens = random.Random(2).choices(range(256), k=700)
    runner = load(path, threads=2, kv_bytes=8 << 20)
    judge = LlamaRunner(str(path), threads=1, kv_precision="f32", max_rows=1024)
    truth = judge.decode([Span(0, tokens, 0, len(tokens))]).copy()
    rows: dict[int, Logits] = {}
    for size in (256, 37):
        for start in range(0, len(tokens), size):
            chunk = tokens[start : start + size]
            logits = runner.decode([Span(0, chunk, start, len(chunk))]).copy()
            for i, row in enumerate(logits, start):
                np.testing.assert_array_equal(row, rows.setdefault(i, row))
        runner.free(0)
    mine = np.stack([rows[i] for i in range(len(tokens))])
    assert divergences(truth, mine).mean() <= MOST_KL
    judge.close()
    runner.close()


def test_a_chunk_is_read_as_if_nothing_stood_before_it(tmp_path: Path) -> None:
    """Llama 4's chunks have 8192 tokens, whatever a file says. Its first layer has RoPE, so only distances count.

    llama.cpp's take seconds; it gave the same for four layers.
    """
    tiny = replace(MODELS["llama4"], layers=1).with_settings(context_length=8448)
    path = write(tmp_path / "x.gguf", tiny)
    tokens = random.Random(3).choices(range(256), k=8192 + 40)
    runner = load(path, kv_bytes=8 << 20, context_length=8448)
    for start in range(0, 8160, 240):
        runner.decode([Span(0, tokens[start : start + 240], start, 0)])
    later = runner.decode([Span(0, tokens[8160:], 8160, 72)]).copy()
    alone = runner.decode([Span(1, tokens[8192:], 0, 40), Span(2, tokens[8160:], 0, 72)]).copy()
    assert divergences(alone[:40], later[32:]).mean() <= MOST_KL
    # Which have the whole chunk before.
    assert divergences(alone[40:72], later[:32]).mean() > MOST_KL
    runner.close()


@pytest.mark.parametrize(
    ("name", "settings", "reason"),
    [
        ("gpt-oss", {"attention.sliding_window": -1}, "sliding_window is -1, not a count"),
        ("qwen3moe", {"expert_weights_scale": 2.5}, "settings it does not know: expert_weights"),
        ("gemma3", {"attn_logit_softcapping": 30.0}, "does not know: attn_logit_softcapping"),
        ("phi3", {"rope.scaling.type": "su"}, "rope.scaling.type is 'su', not one of none"),
        ("qwen2moe", {"expert_feed_forward_length": 40}, "experts are 40 wide"),
        ("gpt2", {"attention.max_alibi_bias": 8.0}, "does not know: attention.max_alibi_bias"),
        ("mistral3", {"rope.scaling.yarn_log_multiplier": -4.0}, "yarn_log_multiplier is -4.0"),
        ("minicpm", {"residual_scale": 0.0}, "residual_scale is 0.0, not a real number"),
        ("dots1", {"expert_gating_func": 1}, "shares of experts are not by sigmoid"),
        ("bailingmoe2", {"expert_group_used_count": 1}, "1 groups of 2 experts have fewer"),
        ("llama4", {"attention.sliding_window": 0}, "its attention has no chunks"),
        ("llama4", {"interleave_moe_layer_step": 0}, "does not say llama4.interleave_moe"),
        ("llama", {"attention.clamp_kqv": 8.0}, "does not know: attention.clamp_kqv"),
        ("cohere2moe", {"rope.freq_base_swa": 2e4}, "does not know: rope.freq_base_swa"),
        ("cohere2moe", {"attention.sliding_window": 0}, "does not say cohere2moe.attention.slid"),
        ("apertus", {}, "xielu.alpha_n has 0 numbers for 3 layers"),
        ("ernie4_5-moe", {"interleave_moe_layer_step": 2}, "between those with experts have none"),
    ],
)
def test_what_the_table_does_not_know_is_refused(
    tmp_path: Path, name: str, settings: dict[str, float], reason: str
) -> None:
    path = write(tmp_path / "x.gguf", MODELS[name])
    found = header(path)
    own = {f"{found.architecture}.{key}": value for key, value in settings.items()}
    changed = type(found)(
        found.architecture,
        {**found.metadata, **own},
        found.array_lengths,
        found.tensors,
        found.num_bytes,
    )
    assert reason in (supports(changed) or "")


@pytest.mark.parametrize(
    ("groups", "used"), [(3, 2), (4, 0), (4, 4), (4, 5), (8, 2), (16, 2), (2**31, 1)]
)
def test_groups_that_make_no_sense_are_computed_by_no_runner(
    tmp_path: Path, groups: int, used: int
) -> None:
    """llama.cpp would end the process, whatever the architecture."""
    found = header(write(tmp_path / "x.gguf", MODELS["bailingmoe2"]))
    for architecture in ("bailingmoe2", "deepseek2"):
        of_experts = {"count": 8, "used_count": 2}
        of_experts |= {"group_count": groups, "group_used_count": used}
        own = {f"{architecture}.expert_{key}": value for key, value in of_experts.items()}
        changed = replace(found, architecture=architecture, metadata={**found.metadata, **own})
        assert f"8 experts are chosen from {used} of {groups}" in (senseless(changed) or "")


@pytest.mark.parametrize(
    ("experts", "used", "reason"),
    [
        ((), (4, 4, 4), "4 of 0 experts are used"),
        ((8, 8, 8), (2, 9, 2), "9 of 8 experts are used"),
        ((8, 8, 8), (2, 0, 2), None),  # no layer chooses any
    ],
)
def test_experts_of_each_layer(
    tmp_path: Path, experts: tuple[int, ...], used: tuple[int, ...], reason: str | None
) -> None:
    """llama.cpp would end the process where more are used than there are."""
    found = header(write(tmp_path / "x.gguf", MODELS["llama"]))
    own = {"llama.expert_count": experts, "llama.expert_used_count": used}
    lists = {key: values for key, values in own.items() if values}
    lengths = {key: len(values) for key, values in lists.items()}
    changed = replace(
        found,
        array_lengths={**found.array_lengths, **lengths},
        short_arrays={**found.short_arrays, **lists},
    )
    assert (senseless(changed) or "None").startswith(reason or "None")


def test_layers_that_choose_experts_use_some(tmp_path: Path) -> None:
    """llama.cpp would end the process."""
    found = header(write(tmp_path / "x.gguf", MODELS["dbrx"]))
    name, layers = "dbrx.expert_used_count", found.count("block_count")
    used = (2,) * (layers - 1) + (0,)
    given = {key: value for key, value in found.metadata.items() if key != name}
    lengths = {**found.array_lengths, name: layers}
    changed = replace(found, metadata=given, array_lengths=lengths, short_arrays={name: used})
    assert f"{name} is 0 in layer {layers - 1}, which has some" in (senseless(changed) or "")


def test_learned_positions_bound_the_context(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", MODELS["gpt2"])
    runner = load(path, context_length=4096, kv_bytes=8 << 20)
    assert runner.capabilities.context_length == 512
    runner.close()
