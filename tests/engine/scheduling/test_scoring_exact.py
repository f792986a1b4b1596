"""Scores of the whole engine on a real model, held against an independent forward pass in numpy."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray

from segue import config
from segue.engine.seam import Loaded
from segue.runners.cpu.loader import CpuLoader
from segue.runners.llama.runner import LlamaLoader
from segue.types import CompletionRequest, Sampling, TokenScore
from tests.engine.harness import Bench, RequestEvents, ask
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_reference import TinyReference

HEADER = list(b"A header that every prompt of the batch begins with, as few-shot examples do. ")
PROMPTS = [HEADER + list(tail) for tail in (b"the end", b"another one", b"\xc3\xa9t\xc3\xa9", b"x")]


def load_llama(path: Path) -> Loaded:
    return LlamaLoader(
        str(path), "tiny", context_length=256, num_slots=8, threads=1, kv_precision="f32"
    )()


def load_cpu(path: Path) -> Loaded:
    return CpuLoader(
        str(path),
        "tiny",
        kv_bytes=1 << 22,
        num_slots=8,
        threads=1,
        max_rows=64,
        cache_dir=str(config.load({}).cache_dir),
    )()


@dataclass(frozen=True)
class Kind:
    """A runner, the weights it takes as they are, and how near to float32 it computes."""

    load: Callable[[Path], Loaded]
    weights: gguf.GGMLQuantizationType
    rounding: float


KINDS = {
    "llama": Kind(load_llama, gguf.GGMLQuantizationType.F32, 1e-4),
    # It rounds activations to 8 bits.
    "cpu": Kind(load_cpu, gguf.GGMLQuantizationType.Q8_0, 0.25),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture(scope="module")
def path(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scoring") / "tiny.gguf"
    return write_tiny_gguf(path, tensor_type=kind.weights)


@pytest.fixture(scope="module")
def loaded(kind: Kind, path: Path) -> Iterator[Loaded]:
    loaded = kind.load(path)
    yield loaded
    loaded.runner.close()
    loaded.vocab.close()


@pytest.fixture
def bench(loaded: Loaded) -> Bench:
    for slot in range(loaded.runner.capabilities.num_slots):
        loaded.runner.free(slot)
    return Bench(loaded.runner, loaded.vocab, chunk_rows=32)


@pytest.fixture(scope="module")
def reference(path: Path) -> TinyReference:
    return TinyReference(path)


@cache  # several tests ask of the same texts
def log_softmax(reference: TinyReference, tokens: tuple[int, ...]) -> NDArray[np.float64]:
    wide = reference.logits([*tokens]).astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(-1, keepdims=True)))


def scoring(*prompts: list[int], num_top: int = 0, use_cache: bool = True) -> CompletionRequest:
    return ask(*prompts, max_tokens=0, prompt_logprobs=num_top, use_cache=use_cache)


def scores_of(story: RequestEvents, prompt: int = 0) -> tuple[TokenScore, ...]:
    scores = story.prompted[prompt].scores
    assert scores is not None
    return tuple(scores)


def logprobs_of(story: RequestEvents, prompt: int = 0) -> list[float]:
    first, *others = [score.logprob for score in scores_of(story, prompt)]
    assert first is None, "nothing precedes the first token"
    return [logprob for logprob in others if logprob is not None]


@pytest.mark.parametrize("num_top", [0, 1, 5])
def test_agrees_with_numpy(
    bench: Bench, reference: TinyReference, kind: Kind, num_top: int
) -> None:
    [story] = bench.run(scoring(*PROMPTS, num_top=num_top))
    for index, prompt in enumerate(PROMPTS):
        exact = log_softmax(reference, tuple(prompt))
        scores = scores_of(story, index)
        assert [score.token for score in scores] == prompt
        for row, score in zip(exact, scores[1:], strict=False):
            assert score.logprob == pytest.approx(row[score.token], abs=kind.rounding)
            values = [alternative.logprob for alternative in score.top]
            best = np.sort(row)[::-1][:num_top].tolist()
            assert values == pytest.approx(best, abs=kind.rounding)
            ids = [alternative.token for alternative in score.top]
            assert row[ids].tolist() == pytest.approx(values, abs=kind.rounding)


def test_cached_scores_are_those_computed(bench: Bench) -> None:
    """The second request finds the header's scores, and computes only the rows it lacks."""
    [cold] = bench.run(scoring(PROMPTS[1], use_cache=False))
    bench.run(scoring(PROMPTS[0]))
    [warm] = bench.run(scoring(PROMPTS[1]))
    assert warm.prompted[0].num_cached == len(HEADER) - 1
    rounding = 0.0 if bench.capabilities.deterministic else 1e-4
    assert logprobs_of(warm) == pytest.approx(logprobs_of(cold), abs=rounding, rel=0.0)


def test_conditional_scores_add_up_to_the_joint_score(bench: Bench) -> None:
    text = PROMPTS[1]
    [whole] = bench.run(scoring(text, use_cache=False))
    starts = [text[: end + 1] for end in range(1, len(text))]
    stories = bench.run(*(scoring(start, use_cache=False) for start in starts))
    conditional = [logprobs_of(story)[-1] for story in stories]
    assert sum(conditional) == pytest.approx(sum(logprobs_of(whole)), abs=1e-3)
    assert conditional == pytest.approx(logprobs_of(whole), abs=1e-4)


def test_generated_text_scores_as_it_was_reported(bench: Bench, kind: Kind) -> None:
    """Drawn tokens may be computed by other kernels than a prompt's, which round in other places."""
    [made] = bench.run(ask(HEADER, max_tokens=40, logprobs=2, sampling=Sampling(seed=1)))
    [again] = bench.run(scoring(HEADER + made.tokens[0], num_top=2))
    reported = [score.logprob for score in made.scores[0]]
    assert logprobs_of(again)[-len(reported) :] == pytest.approx(reported, abs=kind.rounding)


def test_generated_text_scores_to_the_same_floats_on_a_deterministic_runner() -> None:
    bench = Bench(chunk_rows=16)
    [made] = bench.run(ask("once", max_tokens=60, logprobs=3, sampling=Sampling(seed=1)))
    [again] = bench.run(scoring(list(b"once") + made.tokens[0], num_top=3))
    assert scores_of(again)[-60:] == tuple(made.scores[0])


@pytest.mark.parametrize("first_top", [0, 3])
def test_more_alternatives_than_were_cached_are_computed(bench: Bench, first_top: int) -> None:
    [cold] = bench.run(scoring(PROMPTS[0], num_top=2, use_cache=False))
    bench.run(scoring(PROMPTS[0], num_top=first_top))
    [warm] = bench.run(scoring(PROMPTS[0], num_top=2))
    is_cached = warm.prompted[0].num_cached > 0
    assert is_cached == (first_top >= 2)
    assert [len(score.top) for score in scores_of(warm)[1:]] == [2] * (len(PROMPTS[0]) - 1)
    assert logprobs_of(warm) == pytest.approx(logprobs_of(cold), abs=1e-4)


def test_never_more_rows_of_logits_than_a_chunk(bench: Bench) -> None:
    bench.submit(scoring(*PROMPTS))
    while (batch := bench.scheduler.next_batch()) is not None:
        assert sum(span.num_logits for span in batch.spans) <= 32
        bench.scheduler.commit(batch, bench.runner.decode(batch.spans))


def test_models_that_cannot_be_cut_back_are_scored_too(tmp_path: Path) -> None:
    """A recurrent model's state at a prefix cannot give the row before the first unscored token."""
    loaded = load_llama(write_tiny_gguf(tmp_path / "mamba.gguf", architecture="mamba"))
    bench = Bench(loaded.runner, loaded.vocab, chunk_rows=32)
    [short, long, again] = [
        bench.run(scoring(prompt))[0] for prompt in (HEADER, PROMPTS[0], PROMPTS[0])
    ]
    shared = len(HEADER) - 1
    assert logprobs_of(long)[:shared] == pytest.approx(logprobs_of(short), abs=1e-4)
    assert logprobs_of(again) == pytest.approx(logprobs_of(long), abs=1e-4)
    loaded.runner.close()
    loaded.vocab.close()
