"""What the engine promises, held on every runner: the fake one, and the real ones on the tiny model."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from segue import config
from segue.engine.seam import Loaded
from segue.runners.cpu.loader import CpuLoader
from segue.runners.fake import FakeLoader
from segue.runners.llama.runner import LlamaLoader
from segue.types import CompletionRequest, Prompt, Sampling, Shift
from tests.engine.harness import Bench, ask
from tests.engine.slots.acting import Acting

STORY = "then the other rain and the tea"
GREEDY = Sampling(temperature=0.0)


@pytest.fixture(scope="module", params=["fake", "llama", "cpu"])
def loaded(request: pytest.FixtureRequest, tiny_gguf: Path) -> Iterator[Loaded]:
    if request.param == "fake":
        yield FakeLoader(context_length=256)()
        return
    if request.param == "llama":
        loaded = LlamaLoader(
            str(tiny_gguf), "tiny", context_length=256, num_slots=32, threads=1, kv_precision="f32"
        )()
    else:
        cache = str(config.load({}).cache_dir)
        loaded = CpuLoader(
            str(tiny_gguf), "tiny", context_length=256, num_slots=32, threads=2, cache_dir=cache
        )()
    yield loaded
    loaded.runner.close()


@pytest.fixture
def bench(loaded: Loaded) -> Iterator[Bench]:
    yield Bench(loaded.runner, loaded.vocab, chunk_rows=32)
    for slot in range(loaded.runner.capabilities.num_slots):
        loaded.runner.free(slot)
    assert loaded.runner.cells_free == loaded.runner.capabilities.num_cells


@pytest.fixture
def exact_bench(bench: Bench) -> Bench:
    if not bench.capabilities.deterministic:
        pytest.skip("answers of this runner vary with what runs beside them")
    return bench


def test_a_text_goes_on(bench: Bench) -> None:
    [story] = bench.run(ask(STORY, max_tokens=12, logprobs=2))
    assert story.done is not None
    assert story.done.usage.completion_tokens == len(story.tokens[0]) == 12
    assert len(story.scores[0]) == 12
    assert story.finished[0].cause == "max_tokens"


def test_choices_differ_and_come_again(exact_bench: Bench) -> None:
    first, again = (exact_bench.run(ask(STORY, n=4, max_tokens=10))[0].texts for _ in range(2))
    assert len(set(first.values())) == 4
    assert first == again


def test_many_at_once_are_as_each_alone(exact_bench: Bench) -> None:
    def asked() -> list[CompletionRequest]:
        return [ask(STORY[i:], max_tokens=8, sampling=GREEDY) for i in range(8)]

    alone = [exact_bench.run(request)[0].texts for request in asked()]
    assert [story.texts for story in exact_bench.run(*asked())] == alone


def test_what_was_read_before_is_not_read_again(bench: Bench) -> None:
    [first] = bench.run(ask(STORY, max_tokens=8, sampling=GREEDY))
    longer = [*first.prompted[0].tokens, *first.tokens[0]]
    [again] = bench.run(ask(longer, max_tokens=1))
    assert again.prompted[0].num_cached >= len(longer) - 2


def test_scores_read_are_those_drawn(bench: Bench) -> None:
    [drawn] = bench.run(ask(STORY, max_tokens=8, logprobs=0))
    text = [*drawn.prompted[0].tokens, *drawn.tokens[0]]
    [read] = bench.run(ask(text, max_tokens=0, prompt_logprobs=0))
    values = [score.logprob for score in tuple(read.prompted[0].scores or ())[-8:]]
    assert values == pytest.approx([score.logprob for score in drawn.scores[0]], abs=2e-3)


def test_a_stop_string_ends_it_and_stays_away(exact_bench: Bench) -> None:
    [whole] = exact_bench.run(ask(STORY, max_tokens=24, sampling=GREEDY))
    stop = whole.texts[0][5:8]
    [stopped] = exact_bench.run(ask(STORY, max_tokens=24, sampling=GREEDY, stop=(stop,)))
    assert stopped.texts[0] == whole.texts[0][: whole.texts[0].index(stop)]
    assert stopped.finished[0].stop == stop


def test_a_text_goes_on_past_its_context(bench: Bench) -> None:
    """What is drawn after a shift has the scores that it has as a prompt."""
    sampling = Sampling(seed=1, ignore_eos=True)
    asked = ask(STORY, max_tokens=200, sampling=sampling, shift=Shift(num_kept=9), logprobs=0)
    [story] = bench.run(asked)
    tokens = [*story.prompted[0].tokens, *story.tokens[0]]
    end = story.finished[0]
    assert (end.num_tokens, end.num_dropped) == (200, (len(tokens) - 256) // 123 * 123 + 123)
    window = [*tokens[:9], *tokens[9 + end.num_dropped :]]
    [read] = bench.run(ask(window, max_tokens=0, prompt_logprobs=0, use_cache=False))
    num_drawn = (len(tokens) - 256) % 123
    values = [score.logprob for score in tuple(read.prompted[0].scores or ())[-num_drawn:]]
    drawn = [score.logprob for score in story.scores[0][-num_drawn:]]
    assert values == pytest.approx(drawn, abs=2e-3)


def test_a_slot_that_is_saved_and_restored_goes_on_as_it_would_have(
    loaded: Loaded, exact_bench: Bench, tmp_path: Path
) -> None:
    if loaded.slot_bytes is None:
        pytest.skip("slots of this runner cannot be written out")
    acting = Acting(exact_bench, tmp_path, loaded.slot_bytes)
    [first] = exact_bench.run(ask(STORY, max_tokens=40, sampling=GREEDY, client_slot=0))
    text = [*first.prompted[0].tokens, *first.tokens[0]]
    saved = acting.done("save")
    going_on = ask(text, max_tokens=20, logprobs=3, sampling=GREEDY, client_slot=0)
    [wanted] = exact_bench.run(going_on)
    acting.done("erase")
    [read] = exact_bench.run(msgspec.structs.replace(going_on, request_id="read"))
    assert (read.prompted[0].num_cached, read.essence) == (0, wanted.essence)
    acting.done("erase")
    assert acting.done("restore").num_tokens == saved.num_tokens == len(text) - 1
    [again] = exact_bench.run(msgspec.structs.replace(going_on, request_id="again"))
    assert (again.prompted[0].num_cached, again.essence) == (len(text) - 1, wanted.essence)
    acting.done("erase")


def test_a_cancelled_request_leaves_its_prefix_and_nothing_else(bench: Bench) -> None:
    request = ask(STORY * 4, max_tokens=50)
    bench.submit(request)
    for _ in range(3):
        bench.step()
    bench.scheduler.cancel(request.request_id)
    bench.scheduler.check()
    assert bench.scheduler.stats.running == 0
    [again] = bench.run(ask(STORY * 4, max_tokens=1))
    assert again.prompted[0].num_cached > 0


def test_more_than_fits_finishes_in_turns(bench: Bench) -> None:
    prompts = [Prompt((f"{i} {STORY}",)) for i in range(40)]
    request = CompletionRequest(
        request_id="many",
        model="tiny",
        prompts=tuple(prompts),
        max_tokens=6,
        sampling=Sampling(seed=1),
    )
    [story] = bench.run(request)
    assert story.done is not None
    assert len(story.finished) == 40
