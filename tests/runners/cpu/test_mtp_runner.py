"""The MTP layer: what it gives, and that nothing else changes."""

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from segue import config
from segue.assembly.runners import choose_loader
from segue.engine.scheduling.drafts.mtp import MtpProposer
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Draw, Loaded, Logits, Span
from segue.errors import Incompatible
from segue.models.gguf import GgufHeader, header
from segue.models.progress import silent
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.support import drafts_obstacle, supports
from segue.runners.cpu.loader import CpuLoader
from segue.runners.cpu.mtp_runner import MAX_DRAFTING_SLOTS, MtpRunner
from segue.runners.cpu.runner import CpuRunner
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.types import CompletionRequest, Constraint, Sampling
from tests.engine.harness import Bench, ask
from tests.engine.scheduling.drafts.test_model import Always
from tests.runners.cpu.architectures.test_architectures import divergences
from tests.runners.cpu.conftest import load, soil
from tests.support import llama_drafts
from tests.support.models.tiny_drafts import DRAFTING, write_foreseeing
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import WIDTH, write

LENGTH = 40
TEXT = random.Random(1).choices(range(256), k=LENGTH + 3)
MOST_KL = 2e-5  # of any token: keys and values are halves here and floats there


@pytest.fixture(scope="module")
def qwen35(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("drafts") / "x.gguf", DRAFTING["qwen35"])


@pytest.fixture(scope="module")
def shared_drafter(qwen35: Path) -> Iterator[MtpRunner]:
    runner = drafting(qwen35)
    yield runner
    runner.close()


@pytest.fixture
def drafter(shared_drafter: MtpRunner) -> Iterator[MtpRunner]:
    yield shared_drafter
    shared_drafter.forget_drafts()
    for slot in range(6):
        shared_drafter.free(slot)


def drafting(path: Path, **options: Any) -> MtpRunner:
    made = load(path, kind=MtpRunner, **options)
    assert isinstance(made, MtpRunner)
    return made


def after(runner: MtpRunner, slot: int, tokens: list[int], past: int) -> Logits:
    """What the layer gives after each of the tokens, which the slot does not hold."""
    rows = [
        runner.draft_step([Span(slot, [token], past + i, 1)]).copy()
        for i, token in enumerate(tokens)
    ]
    runner.forget_drafts()
    return np.concatenate(rows)


def test_every_family_that_drafts_is_compared() -> None:
    families = {name for name, family in FAMILIES.items() if family.drafts_by != "none"}
    assert families == {tiny.architecture for tiny in DRAFTING.values()}


@pytest.mark.parametrize("name", DRAFTING)
def test_it_gives_what_llama_cpp_gives(name: str, tmp_path: Path) -> None:
    """After each token of a text, and applied once more to what it made itself."""
    if not llama_drafts.are_there():
        pytest.skip("llama.cpp's functions for drafts cannot be reached here")
    path = write(tmp_path / "x.gguf", DRAFTING[name])
    runner = drafting(path, threads=1, num_slots=1, max_rows=64, kv_bytes=4 << 20)
    mine = []
    for past in range(LENGTH):
        runner.decode([Span(0, [TEXT[past]], past, 1)])
        mine.append(after(runner, 0, [TEXT[past + 1]], past + 1)[0])
    chained = after(runner, 0, TEXT[LENGTH : LENGTH + 2], LENGTH)
    judge = llama_drafts.LlamaDrafts(path, WIDTH, runner.capabilities.vocab_size)
    runner.close()
    made = np.concatenate([np.zeros((1, WIDTH), np.float32), judge.read(TEXT[:LENGTH])])
    truth, own = judge.draft(TEXT[: LENGTH + 1], 0, made)
    again, _ = judge.draft(TEXT[LENGTH + 1 : LENGTH + 2], LENGTH + 1, own[-1:])
    judge.close()
    assert divergences(truth[1:], np.array(mine)).max() < MOST_KL
    assert divergences(again, chained[1:]).max() < MOST_KL


@pytest.mark.parametrize(
    ("name", "kv_type"),
    [
        ("qwen35", "f16"),
        ("glm4moe", "f16"),
        ("step35", "f16"),
        ("deepseek2", "f16"),
        ("qwen35", "q8_0"),
    ],
)
def test_logits_have_the_same_bits_with_it_and_without(
    name: str, kv_type: KvType, tmp_path: Path
) -> None:
    """Whatever rows a step has, and if it is begun too."""
    path = write(tmp_path / "x.gguf", DRAFTING[name])
    given: list[list[Logits]] = []
    for drafts in (False, True):
        kind = MtpRunner if drafts else CpuRunner
        runner = load(path, kind=kind, kv_bytes=4 << 20, kv_type=kv_type)
        soil(runner)
        rows = [runner.decode([Span(0, TEXT[:20], 0, 20)]).copy()]
        rows += [runner.decode([Span(0, TEXT[20:23], 20, 2, (), 3), Span(1, TEXT, 0, 1)]).copy()]
        if isinstance(runner, MtpRunner):
            after(runner, 0, TEXT[30:33], 23)
            assert np.isfinite(after(runner, 1, TEXT[:1], len(TEXT))).all()
        runner.trim(0, 21)
        rows += [runner.decode([Span(0, TEXT[21:22], 21, 1)]).copy()]
        runner.begin([Span(1, TEXT[:1], len(TEXT), 1)], [Draw(0, 0.0, ())])
        runner.begin([Span(1, [-1], len(TEXT) + 1, 1)], [])
        rows += [runner.end().logits.copy(), runner.end().logits.copy()]
        given.append(rows)
        runner.close()
    for plain, other in zip(*given, strict=True):
        np.testing.assert_array_equal(plain.view(np.uint32), other.view(np.uint32))


def test_its_keys_and_values_are_kept_as_those_of_others_are(qwen35: Path) -> None:
    given = []
    for kv_type in get_args(KvType):
        runner = drafting(qwen35, kv_type=kv_type)
        for past in range(0, 42, 21):
            runner.decode([Span(0, TEXT[past : past + 21], past, 1)])
        given.append(after(runner, 0, TEXT[42:43] * 3, 42))
        runner.close()
    assert 0 < divergences(given[0], given[1]).max() < 0.01


def test_adapters_go_with_it(tmp_path: Path) -> None:
    """Of the layer itself too, though drafts pass over those."""
    path = write(tmp_path / "x.gguf", DRAFTING["qwen35"])
    names = ["blk.0.ffn_up.weight", "blk.4.attn_k.weight", "output.weight"]
    file = str(write_tiny_lora(tmp_path / "lora.gguf", path, names=names, architecture="qwen35"))
    given = []
    for drafts in (False, True):
        kind = MtpRunner if drafts else CpuRunner
        runner = load(path, kind=kind, adapters={"a": file})
        given.append(runner.decode([Span(0, TEXT, 0, 9, ((0, 1.0),))]).copy())
        plain = runner.decode([Span(1, TEXT, 0, 9)])
        assert np.abs(plain - given[-1]).max() > 0.01
        if isinstance(runner, MtpRunner):
            assert np.isfinite(after(runner, 0, TEXT[:2], len(TEXT))).all()
        runner.close()
    np.testing.assert_array_equal(given[0], given[1])


def test_bits_do_not_depend_on_chunks_steps_and_neighbours(drafter: MtpRunner) -> None:
    drafter.decode([Span(0, TEXT[:30], 0, 1)])
    expected = after(drafter, 0, TEXT[30:34], 30)
    for past in range(0, 30, 10):
        drafter.decode(
            [Span(1, TEXT[past : past + 10], past, 0), Span(2, TEXT[3:9], past // 5 * 3, 0)]
        )
    np.testing.assert_array_equal(after(drafter, 1, TEXT[30:34], 30), expected)
    spans = [Span(slot, TEXT[30:31], 30, 1) for slot in (1, 0)]
    both = drafter.draft_step([spans[0], Span(2, TEXT[7:8], 18, 1), spans[1]])
    np.testing.assert_array_equal(both[[0, 2]], expected[[0, 0]])


def test_forks_trims_and_given_back_tokens_leave_what_it_goes_on_from(
    drafter: MtpRunner,
) -> None:
    drafter.decode([Span(0, TEXT[:30], 0, 1)])
    expected = after(drafter, 0, TEXT[30:33], 30)
    drafter.fork(0, 1, 30)
    drafter.decode([Span(0, TEXT[1:5], 30, 1, (), 5)])  # a draft, of which nothing is accepted
    drafter.trim(0, 30)
    for slot in (0, 1):
        np.testing.assert_array_equal(after(drafter, slot, TEXT[30:33], 30), expected)


def test_a_part_of_a_cached_prefix_is_enough_to_go_on(tmp_path: Path) -> None:
    """Of what was made of tokens before the last few nothing is kept: the first row after them is a bit off."""
    path = write(tmp_path / "x.gguf", DRAFTING["glm4moe"])
    runner = drafting(path)
    runner.decode([Span(0, TEXT, 0, 1)])
    runner.fork(0, 1, 16)
    for slot, past in ((1, 16), (2, 0)):
        runner.decode([Span(slot, TEXT[past:40], past, 1)])
    forked, whole = (after(runner, slot, TEXT[40:41], 40) for slot in (1, 2))
    runner.close()
    assert divergences(whole, forked).max() < 0.1


def test_drafts_take_no_cells_after_they_are_forgotten(drafter: MtpRunner) -> None:
    drafter.decode([Span(0, TEXT[:32], 0, 1)])
    before = drafter.cells_free
    drafter.draft_step([Span(0, [1], 32, 1)])
    assert drafter.cells_free == before - 32
    drafter.forget_drafts()
    assert drafter.cells_free == before
    drafter.decode([Span(0, TEXT[32:33], 32, 1)])


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        ([Span(0, [1, 2], 3, 1)], "one token of each slot"),
        ([Span(0, [1], 4, 1)], "slot 0 holds 3 tokens, not 4"),
        ([Span(0, [1 << 20], 3, 1)], "a token that the model does not have"),
        ([Span(0, [-1], 3, 1)], "a token that the model does not have"),
        ([Span(6, [1], 0, 1)], "there is no slot 6"),
        ([Span(0, [1], 3, 1)] * 2, "two spans"),
    ],
)
def test_what_would_corrupt_memory_is_refused(
    drafter: MtpRunner, spans: list[Span], reason: str
) -> None:
    drafter.decode([Span(0, [1, 2, 3], 0, 1)])
    with pytest.raises(ValueError, match=reason):
        drafter.draft_step(spans)
    assert after(drafter, 0, [4], 3).shape[0] == 1


def test_it_has_rows_for_few_slots_and_needs_the_layer(tmp_path: Path, qwen35: Path) -> None:
    many = drafting(qwen35, num_slots=MAX_DRAFTING_SLOTS + 1)
    spans = [Span(slot, [1], 0, 1) for slot in range(MAX_DRAFTING_SLOTS + 1)]
    with pytest.raises(RuntimeError, match="rows of logits"):
        many.draft_step(spans)
    many.close()
    with pytest.raises(Incompatible, match="cannot draft for itself: the file has none"):
        drafting(write(tmp_path / "y.gguf", MODELS["qwen35"]))


# --- files ---


def without(found: GgufHeader, name: str) -> GgufHeader:
    left = tuple(tensor for tensor in found.tensors if not tensor.name.endswith(name))
    assert len(left) < len(found.tensors)
    return replace(found, tensors=left)


def reshaped(found: GgufHeader, name: str, shape: tuple[int, ...]) -> GgufHeader:
    changed = tuple(
        replace(tensor, shape=shape) if tensor.name.endswith(name) else tensor
        for tensor in found.tensors
    )
    assert changed != found.tensors
    return replace(found, tensors=changed)


def test_a_layer_that_is_not_whole_is_not_computed_but_the_model_is(qwen35: Path) -> None:
    found = header(qwen35)
    more = replace(found.tensors[0], name="blk.4.nextn.other.weight")
    files = {
        "lacks tensors (blk.4.nextn.eh_proj.weight)": without(found, "eh_proj.weight"),
        "lacks tensors (blk.4.nextn.hnorm.weight)": without(found, "hnorm.weight"),
        "lacks tensors (blk.4.attn_k.weight)": without(found, "4.attn_k.weight"),
        "eh_proj.weight has the shape (64, 64)": reshaped(found, "eh_proj.weight", (64, 64)),
        "enorm.weight has the shape (32,)": reshaped(found, "enorm.weight", (32,)),
        "blk.4.ffn_up.weight has the shape": reshaped(found, "4.ffn_up.weight", (64, 32)),
        "does not know: blk.N.nextn.other.weight": replace(found, tensors=(*found.tensors, more)),
    }
    assert drafts_obstacle(found) is None
    for reason, file in files.items():
        assert supports(file) is None
        assert reason in (drafts_obstacle(file) or "")


def test_only_the_first_of_several_layers_is_read(tmp_path: Path) -> None:
    tiny = DRAFTING["step35"]
    listed = [False, True, False, True, False, True]
    three = replace(tiny, next_layers=2).with_settings(
        nextn_predict_layers=2, attention__sliding_window_pattern=listed
    )
    path = write(tmp_path / "x.gguf", three)
    runner = drafting(path)
    assert not any(
        runner._weights.has(f"blk.{tiny.layers + 1}.{name}.weight")
        for name in ("attn_k", "nextn.eh_proj")
    )
    runner.close()


@pytest.mark.parametrize(
    ("name", "drafts", "is_used", "said"),
    [
        ("qwen35, drafts", True, True, "drafts by its own MTP layer"),
        ("qwen35, drafts", False, False, ""),
        ("qwen35", True, False, ""),
    ],
)
def test_a_model_drafts_for_itself_if_its_file_can(
    name: str,
    drafts: bool,
    is_used: bool,
    said: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "segue")
    path = write(tmp_path / "x.gguf", MODELS[name])
    loader = choose_loader(config.load({}), path, "x", silent, (), drafts)
    assert isinstance(loader, CpuLoader)
    assert loader.drafts == is_used
    assert said in caplog.text
    assert ("MTP layer" in caplog.text) == bool(said)


# --- answers ---


def loaded_from(path: Path, drafts: bool, kv_bytes: int = 1 << 20) -> Loaded:
    return CpuLoader(
        str(path),
        "x",
        kv_bytes=kv_bytes,
        num_slots=6,
        threads=2,
        cache_dir=str(config.load({}).cache_dir),
        drafts=drafts,
    )()


ASKED: tuple[dict[str, Any], ...] = (
    {"sampling": Sampling(seed=1, temperature=0.0), "max_tokens": 60},
    {"sampling": Sampling(seed=2), "max_tokens": 50, "n": 2},
    {"sampling": Sampling(seed=3, top_k=5, repetition_penalty=1.2), "max_tokens": 40},
    {"sampling": Sampling(seed=4), "constraint": Constraint(kind="regex", value="[a-f ]{4,30}"), "max_tokens": 30},
    {"sampling": Sampling(seed=5, temperature=0.3), "logprobs": 2, "max_tokens": 40},
)  # fmt: skip


def asked() -> list[CompletionRequest]:
    """Their prompts begin alike."""
    return [
        ask("so it begins, word by word, " * 3 + str(i), **each) for i, each in enumerate(ASKED)
    ]


@pytest.mark.parametrize("name", ["qwen35", "glm4moe"])
@pytest.mark.parametrize("kv_bytes", [96 << 10, 1 << 20])
def test_answers_are_those_without_it(name: str, kv_bytes: int, tmp_path: Path) -> None:
    """In a batch, with prefixes that are shared, where memory is short; and again, with prefixes from the cache."""
    path = write_foreseeing(tmp_path / "x.gguf", name)
    answers = []
    for drafts in (True, False):
        loaded = loaded_from(path, drafts, kv_bytes)
        proposer = MtpProposer(loaded.mtp, Always()) if loaded.mtp else None
        bench = Bench(loaded.runner, loaded.vocab)
        bench.scheduler = Scheduler(loaded.runner, loaded.vocab, 64, lambda: 0.0, proposer)
        stories = [*bench.run(*asked()), *bench.run(*asked()[:2])]
        answers.append([story.essence for story in stories])
        stats = bench.scheduler.stats
        assert kv_bytes < 1 << 20 or (stats.draft_accepted > 40) == drafts
        loaded.runner.close()
    assert answers[0] == answers[1]


def test_a_layer_that_foresees_everything_saves_most_steps(tmp_path: Path) -> None:
    loaded = loaded_from(write_foreseeing(tmp_path / "x.gguf"), drafts=True)
    assert loaded.mtp is not None
    bench = Bench(loaded.runner, loaded.vocab)
    proposer = MtpProposer(loaded.mtp, Always())
    bench.scheduler = Scheduler(loaded.runner, loaded.vocab, 64, lambda: 0.0, proposer)
    bench.run(ask("so", max_tokens=96, sampling=Sampling(temperature=0.0, ignore_eos=True)))
    loaded.runner.close()
    stats = bench.scheduler.stats
    assert stats.draft_accepted == stats.draft_tokens
    assert stats.steps < 30
