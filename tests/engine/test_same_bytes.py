"""Same request, same bytes, on the real kernels: what else runs and how it is cut must not show.

On a plain model, on one whose layers differ and share keys, and on two with states. All have 512 bytes of keys and
values per token.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
from msgspec import structs

from segue import config
from segue.engine.request.draft import Drafter
from segue.engine.request.window import window_of
from segue.engine.seam import Loaded
from segue.runners.cpu.loader import CpuLoader
from segue.runners.cpu.threads.tuning import Tuning
from segue.types import CompletionRequest, Constraint, Prompt, Sampling, Shift
from tests.engine.harness import Bench, RequestEvents, ask
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

CELLS = 32
NUM = 20  # requests
KIND = gguf.GGMLQuantizationType.Q8_0
PLAIN, SHARED, STATES, MAMBA = "llama", "gemma4, embeddings of layers", "qwen35", "granitehybrid"
WORDS = Constraint(kind="regex", value=r"((the rain )?(aab|aba))*\.")
LAYERS = {SHARED: 5, STATES: 8, MAMBA: 6}


def write_plain(folder: Path) -> None:
    write_tiny_gguf(folder / "tiny.gguf", tensor_type=KIND)


def load(folder: Path, kv_blocks: int, context_length: int | None = None) -> Loaded:
    """The model that was written into the folder."""
    path = folder / "tiny.gguf"
    kv_bytes = kv_blocks * CELLS * 512
    loader = CpuLoader(
        str(path),
        "tiny",
        context_length=context_length,
        kv_bytes=kv_bytes,
        num_slots=80,
        max_rows=600,
        threads=2,
        cache_dir=str(config.load({}).cache_dir),
    )
    with pytest.MonkeyPatch.context() as patch:
        # What is measured at start differs from machine to machine: drafts are to be tried on each.
        patch.setattr("segue.runners.cpu.runner.tuned", lambda *_: Tuning(((128, 2),)))
        return loader()


@pytest.fixture(scope="module", params=[PLAIN, SHARED, STATES, MAMBA])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a model in it."""
    folder = tmp_path_factory.mktemp("same-bytes")
    if request.param == PLAIN:
        write_plain(folder)
    else:
        tiny = replace(MODELS[request.param], layers=LAYERS[request.param])
        if request.param == MAMBA:
            tiny = tiny.with_settings(attention__head_count_kv=[0, 2, 2, 0, 2, 2])
        write(folder / "tiny.gguf", tiny, kind=KIND)
    return folder


@pytest.fixture(scope="module")
def loaded(folder: Path) -> Iterator[Loaded]:
    loaded = load(folder, 1024)
    yield loaded
    loaded.runner.close()


def requests(seed: int) -> list[CompletionRequest]:
    """Of all sorts; those with the same seed ask for the same."""
    draw = random.Random(seed)
    words = [" the", " and", "rain", " an", "other", ", ", "é", "then "]
    asked = []
    for number in range(NUM):
        prompt = "".join(draw.choices(words, k=draw.randint(1, 40)))
        sampling = Sampling(
            temperature=draw.choice([0.0, 0.2, 0.7, 1.0, 1.5]),
            top_k=draw.choice([0, 5, 40]),
            top_p=draw.choice([0.5, 0.9, 1.0]),
            seed=seed + number,
        )
        asked.append(
            ask(
                prompt,
                sampling=sampling,
                max_tokens=draw.randint(1, 90),
                stop=draw.choice([(), ("the",), ("an", "q")]),
                logprobs=draw.choice([None, 0, 3]),
                prompt_logprobs=draw.choice([None, None, 2]),
                n=draw.choice([1, 1, 2]),
            )
        )
    return asked


@pytest.fixture(scope="module")
def alone(loaded: Loaded) -> list[object]:
    """Each request by itself on an empty engine."""
    answers = []
    for request in requests(1):
        answers.append(bench(loaded).run(request)[0].essence)
        empty(loaded)
    return answers


def bench(loaded: Loaded, chunk_rows: int = 64) -> Bench:
    return Bench(loaded.runner, loaded.vocab, chunk_rows)


def empty(loaded: Loaded) -> None:
    for slot in range(loaded.runner.capabilities.num_slots):
        loaded.runner.free(slot)


@pytest.mark.parametrize("chunk_rows", [16, 512])
def test_among_others_and_in_chunks(loaded: Loaded, alone: list[object], chunk_rows: int) -> None:
    stories = bench(loaded, chunk_rows).run(*requests(1), *requests(2))
    empty(loaded)
    assert [story.essence for story in stories[:NUM]] == alone


def test_with_a_warm_cache(loaded: Loaded, alone: list[object]) -> None:
    """Of a model with states the second time leaves copies of slots, for prompts that come a third time."""
    crowd = bench(loaded)
    for _ in range(1 if loaded.runner.capabilities.can_trim else 2):
        crowd.run(*requests(1))
    again = crowd.run(*requests(1))
    empty(loaded)
    assert sum(story.done.usage.cached_tokens for story in again if story.done) > 300
    assert [story.essence for story in again] == alone


def test_an_answer_that_comes_back_as_prompt(loaded: Loaded) -> None:
    """Its tokens were drawn before and are prompt now: they need not be computed again, and it does not show."""
    crowd = bench(loaded)
    first = crowd.run(*requests(1))
    longer = [[*story.prompted[0].tokens, *story.tokens[0]] for story in first]
    warm = crowd.run(*(ask(tokens, max_tokens=8, logprobs=0) for tokens in longer))
    assert all(s.prompted[0].num_cached >= len(t) - 2 for s, t in zip(warm, longer, strict=True))
    empty(loaded)
    cold = bench(loaded).run(*(ask(tokens, max_tokens=8, logprobs=0) for tokens in longer))
    empty(loaded)
    assert [story.essence for story in warm] == [story.essence for story in cold]


def test_with_so_little_memory_that_sequences_are_preempted(
    folder: Path, alone: list[object]
) -> None:
    loaded = load(folder, 8, context_length=256)  # 256 cells for some 25 sequences
    crowd = bench(loaded)
    stories = crowd.run(*requests(1))
    assert crowd.scheduler.stats.preemptions > 0
    assert [story.essence for story in stories] == alone
    loaded.runner.close()


def test_without_guesses(
    loaded: Loaded, alone: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd = bench(loaded)
    crowd.may_go_on = lambda: False  # so that every step may have guesses
    guessed = crowd.run(*requests(1))
    # Texts of models with states hardly repeat themselves here: see below.
    if loaded.runner.capabilities.can_trim:
        assert crowd.scheduler.stats.draft_accepted > 0, "else they were never tried"
    assert [story.essence for story in guessed] == alone
    empty(loaded)
    monkeypatch.setattr(Drafter, "chances", lambda *_: [])
    stories = bench(loaded).run(*requests(1))
    empty(loaded)
    assert [story.essence for story in stories] == alone


@pytest.mark.parametrize("constraint", [None, WORDS])
def test_guesses_that_are_taken_and_left(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch, constraint: Constraint | None
) -> None:
    """Texts of two letters repeat themselves, though not for long. What a constraint forces is guessed too."""
    asked = [
        ask(
            prompt,
            max_tokens=60,
            logprobs=logprobs,
            constraint=constraint,
            sampling=Sampling(seed=seed, ignore_eos=True, logit_bias=dict.fromkeys((97, 98), 60.0)),
        )
        for seed, prompt in enumerate(["ab", "abba abab" * 6, "the rain aab" * 3])
        for logprobs in (None, 1)
    ]
    answers = []
    for drafts in (True, False):
        if not drafts:
            monkeypatch.setattr(Drafter, "chances", lambda *_: [])
            for room in ("planning", "forced"):
                monkeypatch.setattr(f"segue.engine.scheduling.{room}.MAX_FORCED", 0)
        stories = []
        drafted = accepted = 0
        for request in asked:  # alone, so that there are rows for guesses
            crowd = bench(loaded)
            stories += crowd.run(request)
            drafted += crowd.scheduler.stats.draft_tokens
            accepted += crowd.scheduler.stats.draft_accepted
            crowd.scheduler.check()
            empty(loaded)
        assert (0 < accepted < drafted) if drafts else drafted == 0
        answers.append([story.essence for story in stories])
    assert answers[0] == answers[1]


def test_scores_of_a_text_are_those_its_tokens_were_drawn_with(loaded: Loaded) -> None:
    """Reading and drawing once took different kernels: log-probabilities differed by a tenth."""
    asked = [
        ask("the rain and", max_tokens=40, logprobs=2, sampling=Sampling(seed=s)) for s in range(4)
    ]
    for drawn in bench(loaded).run(*asked):
        empty(loaded)
        text = [*drawn.prompted[0].tokens, *drawn.tokens[0]]
        [read] = bench(loaded).run(ask(text, max_tokens=0, prompt_logprobs=2))
        empty(loaded)
        scores = tuple(read.prompted[0].scores or ())[-len(drawn.scores[0]) :]
        # A token that ended an answer is not shown in it, but in a prompt it is.
        shown = [structs.replace(score, is_shown=True) for score in drawn.scores[0]]
        assert list(scores) == shown


CONTEXT = 96


def shifting(seed: int) -> list[CompletionRequest]:
    """Eight whose answers fill their context again and again."""
    asked = []
    for number, request in enumerate(requests(seed)[:8]):
        how = Shift(num_kept=(0, 4, 40, -1)[number % 4], num_dropped=(0, 0, 9)[number % 3])
        sampling = structs.replace(request.sampling, ignore_eos=True)
        prompt = Prompt((str(request.prompts[0].parts[0])[:60],))
        asked.append(
            structs.replace(
                request, prompts=(prompt,), max_tokens=150, stop=(), shift=how, sampling=sampling
            )
        )
    return asked


def test_answers_that_go_on_past_their_context(folder: Path) -> None:
    """Alone, and among others, in other chunks, with so little memory that they are preempted.

    Each window is a text of its own.
    """
    loaded = load(folder, 8, context_length=CONTEXT)
    alone = []
    for request in shifting(1):
        alone.append(bench(loaded).run(request)[0])
        empty(loaded)
    crowd = bench(loaded, chunk_rows=16)
    together = crowd.run(*shifting(1))
    empty(loaded)
    assert crowd.scheduler.stats.preemptions > 0
    assert [story.essence for story in together] == [story.essence for story in alone]
    for request, story in zip(shifting(1), alone, strict=True):
        assert story.finished[0].num_dropped > 50
        if request.logprobs is not None:
            check_windows(loaded, request, story)
    loaded.runner.close()


def check_windows(loaded: Loaded, request: CompletionRequest, story: RequestEvents) -> None:
    """What was drawn from one shift to the next has the scores that it has as a prompt of that window."""
    prompt = [*story.prompted[0].tokens]
    how = request.shift or Shift()
    _, kept, dropped = window_of(how, prompt, loaded.vocab, CONTEXT)
    assert story.finished[0].num_dropped % dropped == 0
    tokens, scores, window = story.tokens[0], story.scores[0], prompt
    place = 0
    while place < len(tokens):
        drawn = tokens[place : place + CONTEXT - len(window)]
        wanted = scores[place : place + len(drawn)]
        window, place = [*window, *drawn], place + len(drawn)
        top = request.logprobs
        [read] = bench(loaded).run(ask(window, max_tokens=0, prompt_logprobs=top))
        empty(loaded)
        found = tuple(read.prompted[0].scores or ())[-len(drawn) :]
        assert [structs.replace(score, is_shown=True) for score in wanted] == list(found)
        window = window[:kept] + window[kept + dropped :]
