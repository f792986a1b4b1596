"""Beam search through the scheduler: the fake runner's likeliest texts, whatever runs beside it."""

from typing import Any

import msgspec
import pytest

from segue.engine.request.beams import BeamSearch
from segue.engine.sampling.scores import score
from segue.engine.seam import Span
from segue.errors import InvalidField
from segue.runners.fake import EOS, FakeRunner, FakeVocab, default_capabilities
from segue.types import (
    Cause,
    CompletionRequest,
    Constraint,
    Infill,
    Prompt,
    Repetition,
    Sampling,
    Shift,
    TokenScore,
)
from tests.engine.harness import Bench, RequestEvents, ask

PROMPT = "The other"


def ends(token: int) -> Cause | None:
    return "eos" if token == EOS else None


def expected(prompt: str, width: int, max_tokens: int, penalty: float = 1.0) -> Any:
    """A search whose every beam is computed from nothing."""
    tokens = FakeVocab().tokenize(prompt, True, True)
    search = BeamSearch(width, max_tokens, penalty, ends)
    while search.beams:
        following = []
        for beam in search.beams:
            whole = [*tokens, *beam.tokens]
            rows = FakeRunner(default_capabilities()).decode([Span(0, whole, 0, 1)])
            found = score(rows, [0], 2 * width)
            pairs = zip(found.ids[0].tolist(), found.values[0].tolist(), strict=True)
            following.append([TokenScore(t, b"", v, i, ()) for i, (t, v) in enumerate(pairs, 1)])
        search.advance(following)
    return search.best(width)


def found(story: RequestEvents) -> list[list[int]]:
    return [story.tokens[choice] for choice in sorted(story.finished)]


def test_the_choices_are_the_best_beams() -> None:
    request = ask(PROMPT, n=3, beam_search=True, max_tokens=7, logprobs=2)
    [story] = Bench().run(request)
    best = expected(PROMPT, 3, 7)
    assert found(story) == [list(beam.tokens) for beam in best]
    for choice, beam in enumerate(best):
        scores = story.scores[choice]
        assert sum(each.logprob or 0.0 for each in scores) == pytest.approx(beam.logprob)
        assert all(len(each.top) == 2 for each in scores)
        assert story.finished[choice].num_tokens == len(beam.tokens)
        assert story.finished[choice].prompt_s > 0
        assert story.finished[choice].decode_s >= 6  # a tick of the clock a round
        assert story.finished[choice].reason == ("length" if beam.cause == "max_tokens" else "stop")
    assert story.done is not None
    assert story.done.usage.completion_tokens == sum(len(beam.tokens) for beam in best)
    assert story.done.usage.prompt_tokens == len(PROMPT)


def test_best_of_is_the_width_and_n_are_returned() -> None:
    [story] = Bench().run(ask(PROMPT, n=1, best_of=4, beam_search=True, max_tokens=6))
    assert found(story) == [list(expected(PROMPT, 4, 6)[0].tokens)]


@pytest.mark.parametrize("penalty", [-2.0, 0.0, 3.0])
def test_length_penalty(penalty: float) -> None:
    request = ask(PROMPT, n=2, beam_search=True, max_tokens=5, length_penalty=penalty)
    [story] = Bench().run(request)
    assert found(story) == [list(beam.tokens) for beam in expected(PROMPT, 2, 5, penalty)]


@pytest.mark.parametrize("can_trim", [True, False])
@pytest.mark.parametrize("use_cache", [True, False])
def test_company_and_little_memory_change_nothing(can_trim: bool, use_cache: bool) -> None:
    """Beams of two prompts and a drawn request share few slots: they are evicted, preempted and computed again."""
    bench = Bench(chunk_rows=5, can_trim=can_trim, num_slots=3, num_cells=160, context_length=64)
    searching = ask(PROMPT, "and", n=3, beam_search=True, max_tokens=6, use_cache=use_cache)
    drawn = ask(PROMPT + " one", n=2, max_tokens=12, sampling=Sampling(seed=3))
    stories = bench.run(searching, drawn, replace_id(searching))
    best = [list(beam.tokens) for prompt in (PROMPT, "and") for beam in expected(prompt, 3, 6)]
    assert found(stories[0]) == found(stories[2]) == best


def replace_id(request: CompletionRequest) -> CompletionRequest:
    return msgspec.structs.replace(request, request_id=request.request_id + "-again")


def test_a_round_computes_one_row_a_beam() -> None:
    """What precedes a beam's last token comes from the prefix cache."""
    bench = Bench(num_slots=16)
    bench.submit(ask("x" * 200, n=4, beam_search=True, max_tokens=8))
    num_rows = []
    while (batch := bench.scheduler.next_batch()) is not None:
        num_rows.append(batch.num_rows)
        bench.scheduler.commit(batch, bench.runner.decode(batch.spans))
    reading = 200 // 64 + 1
    assert max(num_rows[reading:]) <= 4


def test_an_end_token_ends_a_beam() -> None:
    class Ending(FakeRunner):
        """Where two tokens were drawn, the end is almost certain."""

        likely = EOS

        def decode(self, spans: Any) -> Any:
            logits = super().decode(spans)
            row = 0
            for span in spans:
                for i in range(span.num_logits):
                    if span.past + len(span.tokens) - span.num_logits + i + 1 == len(PROMPT) + 2:
                        logits[row, self.likely] = logits[row].max() + 20
                    row += 1
            return logits

    [story] = Bench(Ending(default_capabilities())).run(
        ask(PROMPT, n=2, beam_search=True, max_tokens=9)
    )
    assert [tokens[-1] for tokens in found(story)] == [EOS, EOS]
    assert [each.cause for each in story.finished.values()] == ["eos", "eos"]
    assert all(len(text.encode(errors="replace")) <= 6 for text in story.texts.values())
    stopping = Ending(default_capabilities())
    stopping.likely = 3
    [story] = Bench(stopping).run(
        ask(PROMPT, n=2, beam_search=True, max_tokens=9, sampling=Sampling(stop_token_ids=(3,)))
    )
    assert [(each.cause, each.stop) for each in story.finished.values()] == [("stop_token", 3)] * 2
    [story] = Bench(Ending(default_capabilities())).run(
        ask(PROMPT, n=2, beam_search=True, max_tokens=4, sampling=Sampling(ignore_eos=True))
    )
    assert [each.cause for each in story.finished.values()] == ["max_tokens", "max_tokens"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stop": ("x",)}, "stop"),
        (
            {"constraint": Constraint(kind="regex", value="a+", param="guided_regex")},
            "guided_regex",
        ),
        ({"infill": Infill(suffix=Prompt(("x",)))}, "suffix"),
        ({"sampling": Sampling(logit_bias={3: 1.0})}, "logit_bias"),
        ({"sampling": Sampling(text_bias=(("x", 1.0),))}, "logit_bias"),
        ({"sampling": Sampling(allowed_token_ids=())}, "allowed_token_ids"),
        ({"sampling": Sampling(bad_words=("x",))}, "bad_words"),
        ({"sampling": Sampling(min_tokens=2)}, "min_tokens"),
        ({"repetition": Repetition(max_size=4)}, "repetition_detection"),
        ({"shift": Shift()}, "shift"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"post_sampling_probs": True, "logprobs": 1}, "post_sampling_probs"),
        ({"min_indent": 4}, "n_indent"),
        ({"time_limit_s": 1.0}, "t_max_predict_ms"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
    ids=str,
)
def test_what_cannot_be_combined_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        Bench().submit(ask("x", n=2, beam_search=True, **fields))
    assert caught.value.param == param


def test_logits_of_beams_are_not_changed() -> None:
    """Scores are of the raw logits: temperature and penalties have no effect."""
    hot = Sampling(temperature=1.9, presence_penalty=2.0, top_k=1, seed=4)
    plain, heated = Bench(), Bench()
    [one] = plain.run(ask(PROMPT, n=3, beam_search=True, max_tokens=5, logprobs=0))
    [other] = heated.run(ask(PROMPT, n=3, beam_search=True, max_tokens=5, logprobs=0, sampling=hot))
    assert found(one) == found(other)
    assert one.scores == other.scores
