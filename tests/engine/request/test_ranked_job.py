"""Infill without FIM tokens, on runners whose logits make one middle right."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.bounds import RANKED_CANDIDATES
from segue.engine.infill import middles
from segue.engine.infill.middles import SCORED_SUFFIX, Drawn, find_cuts, read_suffix
from segue.engine.request.prepare import prepare
from segue.engine.request.ranked_job import RankedJob
from segue.engine.sampling.scores import score
from segue.engine.seam import Logits, Model, Span
from segue.runners.fake import EOS, VOCAB_SIZE, FakeRunner, FakeVocab, default_capabilities
from segue.runners.fake_slots import FakeSlot
from segue.types import (
    CompletionRequest,
    Constraint,
    Delta,
    Done,
    Finished,
    Infill,
    Prompt,
    Prompted,
    Sampling,
    Searching,
)
from tests.engine.harness import Bench, ask


class PlainVocab(FakeVocab):
    fim = None


class CorpusRunner(FakeRunner):
    """Goes on as its corpus does, by the last six bytes."""

    def __init__(self, *corpus: str, **limits: int) -> None:
        super().__init__(default_capabilities(**limits))
        self._followers: dict[bytes, Counter[int]] = defaultdict(Counter)
        for text in corpus:
            data = text.encode()
            for at in range(6, len(data) + 1):
                after = data[at] if at < len(data) else EOS
                self._followers[data[at - 6 : at]][after] += 1

    def _rows(self, ends: list[tuple[FakeSlot, int]]) -> Logits:
        rows = [self._row(slot.tokens[max(0, end - 5) : end + 1]) for slot, end in ends]
        return np.array(rows, np.float32).reshape(-1, VOCAB_SIZE)

    def _row(self, last: list[int]) -> Logits:
        row = np.full(VOCAB_SIZE, -12.0, np.float32)
        context = bytes(token for token in last if token < 256)
        for token, count in self._followers.get(context, Counter()).items():
            row[token] = math.log(count)
        return row


SKY = ["the sky is grey today, as it was."] * 3 + ["the sky is blue and the grass is green."]


def fill(
    prefix: str | list[int], suffix: str, sampling: Sampling | None = None, **fields: object
) -> CompletionRequest:
    infill = Infill(suffix=Prompt((suffix,)), mode="ranked")
    return ask(prefix, infill=infill, sampling=sampling, **fields)


def bench(*corpus: str, **limits: int) -> Bench:
    return Bench(CorpusRunner(*(corpus or SKY), **limits), PlainVocab())


def test_the_middle_that_leads_to_the_suffix_wins() -> None:
    request = fill("the sky is", " and the grass is green.", max_tokens=12, logprobs=1)
    [story] = bench().run(request)
    assert story.texts[0] == " blue"
    assert bytes(story.tokens[0]) == b" blue"
    assert [score.piece for score in story.scores[0]] == [b" ", b"b", b"l", b"u", b"e"]
    assert story.finished[0].cause == "eos"
    assert story.finished[0].num_tokens == 5
    assert story.prompted[0].infill == "ranked"
    assert story.done is not None
    assert story.done.usage.prompt_tokens == len("the sky is")
    assert story.done.usage.completion_tokens >= RANKED_CANDIDATES * 5
    kinds = [type(event) for event in story.events if not isinstance(event, Searching)]
    assert kinds == [Prompted, Delta, Finished, Done], "nothing is told before it is decided"


def test_how_far_the_search_is_is_told_until_it_is_decided() -> None:
    [story] = bench().run(fill("the sky is", " and the grass is green.", max_tokens=12))
    kinds = [type(event) for event in story.events]
    search = [event for event in story.events if isinstance(event, Searching)]
    assert kinds == [Prompted, *[Searching] * len(search), Delta, Finished, Done]
    drawn, scored = [s.num_drawn for s in search], [s.num_scored for s in search]
    assert drawn == sorted(drawn)
    assert scored == sorted(scored)
    assert drawn[0] <= RANKED_CANDIDATES
    assert story.done is not None
    assert drawn[-1] >= story.done.usage.completion_tokens


def test_a_suffix_that_begins_inside_a_word_or_without_a_space() -> None:
    [inside] = bench().run(fill("the sky is", "ue and the grass is green.", max_tokens=12))
    assert inside.texts[0] == " bl"
    [spaced] = bench().run(fill("the sky is", "and the grass is green.", max_tokens=12))
    assert spaced.texts[0] == " blue "


def test_n_gives_distinct_middles_best_first() -> None:
    [story] = bench().run(fill("the sky is", " and the grass is green.", n=3, max_tokens=12))
    assert story.texts[0] == " blue"
    assert len({story.texts[choice] for choice in range(3)}) == 3
    assert story.texts[1].startswith(" grey"), "a different one, not another cut of the best"


def test_more_choices_than_middles_repeat_the_best() -> None:
    [story] = bench("abcdefgh").run(fill("abcdef", "h", n=3, max_tokens=1))
    assert [story.texts[choice] for choice in range(3)][:1] == ["g"]
    only_g = Sampling(seed=7, allowed_token_ids=(103,))
    [story] = bench("abcdefgh").run(fill("abcdef", " h", only_g, n=3, max_tokens=1))
    assert [story.texts[choice] for choice in range(3)] == ["g", "g", "g"]
    assert set(story.finished) == {0, 1, 2}


def test_best_of_sets_how_many_are_drawn() -> None:
    [story] = bench().run(fill("the sky is", " and", max_tokens=1, best_of=3))
    assert story.done is not None
    assert story.done.usage.completion_tokens == 3


def test_greedy_needs_no_seed_to_be_the_same_again() -> None:
    texts = set()
    for _ in range(5):
        request = fill(
            "the sky is", " and the grass is green.", Sampling(temperature=0), max_tokens=12
        )
        texts.add(bench().run(request)[0].texts[0])
    assert len(texts) == 1


def test_stop_strings_end_candidates_and_are_reported_with_them() -> None:
    grey = bench("the sky is grey today!!")
    [story] = grey.run(fill("the sky is", "y today!!", max_tokens=30, stop=("y",)))
    assert story.texts[0] == " gre"
    assert (story.finished[0].cause, story.finished[0].stop) == ("stop_text", "y")
    [cut] = grey.run(fill("the sky is", " today", max_tokens=30, stop=("today",)))
    assert cut.texts[0] == " grey"
    assert (cut.finished[0].cause, cut.finished[0].stop) == ("eos", None)


def test_tokens_of_a_stop_string_are_no_part_of_a_middle() -> None:
    """Not even where the request wants their scores, as it may of other texts."""
    grey = bench("the sky is grey today!!")
    gap = fill("the sky is", "!!", max_tokens=30, stop=("today",), score_stops=True, logprobs=0)
    [story] = grey.run(gap)
    assert story.texts[0] == " grey "
    assert [score.piece for score in story.scores[0]] == [b"%c" % byte for byte in b" grey "]


def test_no_stop_string_is_made_by_the_space_before_the_suffix() -> None:
    """Editors that want one line send a line break as the stop, and got middles that ended with one."""
    lines = bench("the sky is\ngrey")
    assert lines.run(fill("the sky ", "grey", max_tokens=9))[0].texts[0] == "is\n"
    stopped = lines.run(fill("the sky ", "grey", max_tokens=9, stop=("\n",)))[0]
    assert stopped.texts[0]
    assert "\n" not in stopped.texts[0]


def test_a_middle_as_long_as_allowed_says_so() -> None:
    [story] = bench().run(fill("the sky is", "ue and the grass is green.", max_tokens=3))
    assert (story.texts[0], story.finished[0].reason) == (" bl", "length")


def test_a_model_that_can_only_end_gives_an_empty_middle() -> None:
    only_end = Sampling(seed=7, allowed_token_ids=(EOS,))
    [story] = bench().run(fill("the sky is", " more", only_end, max_tokens=4))
    assert story.texts.get(0, "") == ""
    assert story.finished[0].cause == "eos"
    assert story.done is not None


def test_a_constraint_holds_for_the_middle_alone() -> None:
    """Cut only where the constraint is satisfied, though the text before the suffix is likelier."""
    constraint = Constraint(kind="regex", value=" (grey|blue and)")
    request = fill("the sky is", " and the grass is green.", constraint=constraint, max_tokens=12)
    [story] = bench().run(request)
    assert story.texts[0] in (" grey", " blue and")


def test_min_tokens_holds_for_the_middle() -> None:
    at_least = Sampling(seed=7, min_tokens=7)
    [story] = bench().run(fill("the sky is", " and the grass", at_least, max_tokens=12))
    assert story.finished[0].num_tokens >= 7


def test_no_suffix_is_plain_continuation_and_no_tokens_is_plain_reading() -> None:
    [plain] = bench().run(fill("the sky is", "", Sampling(temperature=0), max_tokens=5))
    assert plain.texts[0] == " grey"
    assert plain.prompted[0].infill is None
    [warm] = bench().run(fill("the sky is", " and", max_tokens=0))
    assert warm.done is not None
    assert warm.done.usage.completion_tokens == 0


def test_a_long_prefix_loses_its_beginning_and_says_so() -> None:
    [story] = bench(context_length=100).run(fill("x" * 300 + "the sky is", " and", max_tokens=8))
    assert story.prompted[0].num_dropped == 310 - len(story.prompted[0].tokens)
    assert bytes(story.prompted[0].tokens).endswith(b"xxthe sky is")
    assert len(story.prompted[0].tokens) <= 100 - 8 - SCORED_SUFFIX
    assert story.done is not None


def test_a_middle_and_what_is_scored_of_its_suffix_fit_into_the_context() -> None:
    model = Model(PlainVocab(), default_capabilities(context_length=100))
    candidates = prepare(fill("x" * 300, " and", max_tokens=90), model).sequences
    assert {each.num_prompt + each.max_tokens for each in candidates} == {100 - SCORED_SUFFIX}


def test_a_request_that_shares_nothing_with_others_still_shares_with_itself() -> None:
    prefix = "p" * 300 + "the sky is"
    used = bench()
    request = fill(prefix, " and the grass is green.", use_cache=False, max_tokens=8)
    [story] = used.run(request)
    assert story.texts[0] == " blue"
    assert used.runner.num_rows < 2 * len(prefix)  # type: ignore[attr-defined]
    [again] = used.run(fill(prefix, " and the grass is green.", max_tokens=8))
    assert again.prompted[0].num_cached == 0


def test_ranking_costs_little_more_than_the_candidates() -> None:
    prefix = "p" * 300 + "the sky is"
    plain, ranked = bench(), bench()
    plain.run(ask(prefix, n=8, max_tokens=12))
    ranked.run(fill(prefix, " and the grass is green.", max_tokens=12))
    spent = ranked.runner.num_rows - plain.runner.num_rows  # type: ignore[attr-defined]
    assert 0 < spent < 200


def test_cancel_while_ranking_frees_everything() -> None:
    used = bench()
    request = fill("the sky is", " and the grass is green.", max_tokens=4)
    used.submit(request)
    while not any(sequence.is_probe for sequence in used.scheduler._state.running):
        assert used.step()
    used.scheduler.cancel(request.request_id)
    used.scheduler.check()
    assert used.scheduler.is_idle
    assert not used.step()


@settings(max_examples=25)
@given(
    st.text("abcd ", min_size=1, max_size=20),
    st.text("abcd ", min_size=1, max_size=12),
    st.integers(0, 1000),
    st.integers(1, 8),
)
def test_the_answer_is_the_best_of_all_cuts(
    prefix: str, suffix: str, seed: int, max_tokens: int
) -> None:
    """Against every cut of its candidates, each scored to the end by the runner itself."""
    request = fill(prefix, suffix, Sampling(seed=seed), max_tokens=max_tokens)
    bench = Bench(vocab=PlainVocab())
    job = prepare(request, Model(bench.vocab, bench.capabilities))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(middles, "_STAGES", ((2, 1000, math.inf), (SCORED_SUFFIX, 1000, math.inf)))
        bench.scheduler.add(job)
        bench.run()
    totals: dict[str, float] = {}
    for sequence in job.sequences:
        for text, total in _every_cut(sequence.tokens, len(prefix), suffix):
            totals[text] = max(total, totals.get(text, -math.inf))
    text = bench.stories[request.request_id].texts.get(0, "")
    assert not totals or totals[text] == pytest.approx(max(totals.values()), abs=1e-3)


def _every_cut(tokens: list[int], num_prefix: int, suffix: str) -> list[tuple[str, float]]:
    vocab, drawn = PlainVocab(), [token for token in tokens[num_prefix:] if token != EOS]
    pieces = [vocab.piece(token) if token < 256 else b"" for token in drawn]
    continuation = Drawn(drawn, pieces, [0.0] * len(drawn), [])
    found = []
    runner = FakeRunner()
    for cut in find_cuts(0, continuation, read_suffix(Prompt((suffix,)), vocab)):
        every = [*tokens[:num_prefix], *cut.tokens, *cut.tail]
        runner.free(0)
        logits = runner.decode([Span(0, every, 0, len(every))])
        total = score(logits[num_prefix - 1 : -1], every[num_prefix:], 0).logprobs.sum()
        found.append((cut.text.decode(), float(total)))
    return found


def test_only_requests_with_something_to_rank_are_ranked() -> None:
    """The job that needs more steps is made only where it has a use."""
    model = Model(PlainVocab(), default_capabilities())
    assert isinstance(prepare(fill("a", "b"), model), RankedJob)
    assert not isinstance(prepare(fill("a", ""), model), RankedJob)
    assert not isinstance(prepare(fill("a", "b", max_tokens=0), model), RankedJob)


@pytest.mark.parametrize(
    ("regex", "text", "cause"),
    [
        (" (blue|grey|grey today)", " blue", "constraint"),  # not every cut of it may be told
        (" [a-z]{4}.*", " blue", "eos"),
        (" x{30}", " " + "x" * 11, "max_tokens"),  # never met within max_tokens: as far as it came
    ],
)
def test_a_middle_meets_its_constraint(regex: str, text: str, cause: str) -> None:
    constraint = Constraint(kind="regex", value=regex)
    request = fill("the sky is", " and the grass is green.", max_tokens=12, constraint=constraint)
    [story] = bench().run(request)
    assert (story.texts[0], story.finished[0].cause) == (text, cause)


def test_a_time_limit_bounds_the_whole_search() -> None:
    """The clock of the bench ticks once per step and once per look: what is there by then is ranked."""
    infill = Infill(suffix=Prompt((" and the rest of it",)), mode="ranked")
    steps = {}
    for limit_s in (None, 4.0):
        bench = Bench(draft_rows=1)
        [story] = bench.run(ask("some text", infill=infill, max_tokens=60, time_limit_s=limit_s))
        assert story.done is not None
        assert set(story.finished) == {0}
        steps[limit_s] = bench.scheduler.stats.steps
    assert steps[4.0] <= 10 < 60 < steps[None]
