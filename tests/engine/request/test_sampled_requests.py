"""Sampling as a whole request sees it: ends, stops, scores, and nothing that depends on load."""

import math
from typing import Any

import pytest
from msgspec import structs

from segue.errors import InvalidField
from segue.runners.fake import EOS, FakeRunner, default_capabilities
from segue.types import CUT_FIRST, Infill, Prompt, Sampling, Stats
from tests.engine.harness import Bench, RequestEvents, ask

NEG_INF = float("-inf")


def scripted(text: bytes = b"0123456789") -> Bench:
    """The likeliest continuation is `text`, over and over."""
    return Bench(FakeRunner(script=text))


def greedy(**fields: object) -> Sampling:
    return Sampling(temperature=0.0, **fields)  # type: ignore[arg-type]


def test_a_stop_token_ends_the_text_and_is_not_in_it() -> None:
    (story,) = scripted().run(ask("0", sampling=greedy(stop_token_ids=(ord("5"),)), max_tokens=20))
    end = story.finished[0]
    assert (end.reason, end.cause, end.stop) == ("stop", "stop_token", ord("5"))
    assert "0123456789".endswith(story.texts[0] + "56789")
    assert story.tokens[0] == [*story.texts[0].encode(), ord("5")]
    assert end.num_tokens == len(story.tokens[0])


@pytest.mark.parametrize("best_of", [1, 3])
@pytest.mark.parametrize(
    ("fields", "cause", "stop", "text"),
    [
        ({}, "max_tokens", None, "ab\ufffd"),
        ({"stop": ("\ufffd",)}, "stop_text", "\ufffd", "ab"),
        ({"stop": ("b\ufffd",)}, "stop_text", "b\ufffd", "a"),
        ({"stop": ("\ufffdx",)}, "max_tokens", None, "ab\ufffd"),
        ({"stop": ("b\ufffd",), "include_stop": True}, "stop_text", "b\ufffd", "ab\ufffd"),
    ],
)
def test_half_a_character_at_the_end_may_complete_a_stop_string(
    fields: dict[str, Any], cause: str, stop: str | None, text: str, best_of: int
) -> None:
    """The text was cut there, but the answer said that it had ended by its length."""
    request = ask("\x02", sampling=greedy(), max_tokens=3, best_of=best_of, **fields)
    (story,) = Bench(FakeRunner(script=b"ab\xf0\x02")).run(request)
    end = story.finished[0]
    assert (end.cause, end.stop, story.texts[0]) == (cause, stop, text)
    assert end.num_tokens == 3


def test_half_a_character_at_the_end_may_be_indented_too_little() -> None:
    request = ask("\x02", sampling=greedy(), max_tokens=3, min_indent=1)
    (story,) = Bench(FakeRunner(script=b"a\n\xf0\x02")).run(request)
    assert (story.finished[0].cause, story.texts[0]) == ("indent", "a\n")


def test_no_stop_of_any_kind_before_min_tokens() -> None:
    def length(**fields: object) -> int:
        request = ask("0", sampling=greedy(**fields), stop=("3",), max_tokens=40)
        return scripted().run(request)[0].finished[0].num_tokens

    early = length()
    assert length(min_tokens=early) > early
    assert length(stop_token_ids=(ord("2"),), min_tokens=early + 10) > early + 10


def test_ignored_ends_do_not_stop_the_text() -> None:
    def run(sampling: Sampling) -> RequestEvents:
        bench = Bench(FakeRunner(default_capabilities(), end_bias=20.0))
        return bench.run(ask("abc", sampling=sampling, max_tokens=30))[0]

    assert run(Sampling(seed=1)).finished[0].cause == "eos"
    ignoring = run(Sampling(seed=1, ignore_eos=True))
    assert ignoring.finished[0].cause == "max_tokens"
    assert EOS not in ignoring.tokens[0]
    passing = run(Sampling(seed=1, pass_eos=True))
    assert passing.finished[0].cause == "max_tokens"
    assert EOS in passing.tokens[0]
    assert len(passing.tokens[0]) == 30


def test_pieces_that_are_shown_make_the_text() -> None:
    """Where a control token is drawn amid a text, its score says that the text has nothing of it."""
    bench = Bench(FakeRunner(default_capabilities(), end_bias=20.0))
    sampling = Sampling(seed=1, pass_eos=True)
    (story,) = bench.run(ask("abc", sampling=sampling, max_tokens=30, logprobs=0))
    assert EOS in story.tokens[0]
    shown = b"".join(score.piece for score in story.scores[0] if score.is_shown)
    assert shown.decode(errors="replace") == story.texts[0]
    assert len(story.scores[0]) == 30


@pytest.mark.parametrize("infill", [None, Infill(suffix=Prompt((" end",)))])
def test_every_token_has_a_score_where_asked_for(infill: Infill | None) -> None:
    """Also where a model fills a gap by its own tokens, and a stop string ends the text."""
    request = ask("0", sampling=greedy(), stop=("345",), max_tokens=20, logprobs=0, infill=infill)
    (story,) = scripted().run(structs.replace(request, score_stops=True))
    assert story.finished[0].stop == "345"
    assert [score.token for score in story.scores[0]] == story.tokens[0]


def test_bad_words_do_not_appear() -> None:
    request = ask("x", sampling=Sampling(seed=3, bad_words=("e", "ab")), max_tokens=300, logprobs=0)
    (story,) = Bench().run(request)
    assert "e" not in story.texts[0]
    assert "ab" not in story.texts[0]


def test_scores_of_what_was_drawn_from() -> None:
    sampling = Sampling(seed=5, top_k=4, temperature=0.5, order=CUT_FIRST)
    request = ask("x", sampling=sampling, logprobs=10, post_sampling_probs=True, max_tokens=20)
    (story,) = Bench().run(request)
    assert len(story.scores[0]) == 20
    for score in story.scores[0]:
        shares = [math.exp(alternative.logprob) for alternative in score.top]
        assert len(shares) == 4
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert shares == sorted(shares, reverse=True)
        assert score.token == score.top[score.rank - 1].token
        assert score.logprob == score.top[score.rank - 1].logprob


def test_scores_are_raw_unless_asked_for_otherwise() -> None:
    fields = {"logprobs": 5, "max_tokens": 1}
    cold = Bench().run(ask("x", sampling=greedy(logit_bias={65: 50.0}), **fields))[0]
    raw = Bench().run(ask("x", sampling=greedy(), **fields))[0]
    assert cold.tokens[0] == [65]
    assert cold.scores[0][0].top == raw.scores[0][0].top


def test_a_greedy_draw_was_certain() -> None:
    request = ask("x", sampling=greedy(), logprobs=3, post_sampling_probs=True, max_tokens=2)
    (story,) = Bench().run(request)
    assert [(s.logprob, s.rank, len(s.top)) for s in story.scores[0]] == [(0.0, 1, 1)] * 2


def test_a_request_that_forbids_everything_fails_alone() -> None:
    everything = dict.fromkeys(range(264), NEG_INF)
    forbidding = ask("x", sampling=Sampling(logit_bias=everything), max_tokens=5)
    failed, other = Bench().run(forbidding, ask("y", max_tokens=5))
    assert failed.failed is not None
    assert failed.failed.code == InvalidField.code
    assert "forbidden" in failed.failed.message
    assert other.done is not None


STATEFUL = [
    Sampling(seed=2, repetition_penalty=1.3, presence_penalty=0.5, penalty_window=20),
    Sampling(seed=2, dry_multiplier=0.8, dry_window=40, temperature=0.3),
    Sampling(seed=2, mirostat=1, mirostat_tau=3.0),
    Sampling(seed=2, mirostat=2, mirostat_tau=3.0),
    Sampling(seed=2, order=("top_k", "adaptive_p"), top_k=3, adaptive_target=0.9),
    Sampling(seed=2, bad_words=("ab", "the"), xtc_probability=0.5, typical_p=0.9),
]


@pytest.mark.parametrize("sampling", STATEFUL)
def test_state_does_not_depend_on_drafts_or_preemption(sampling: Sampling) -> None:
    """Guesses and recomputed KV must leave penalties, matches and mu as they are."""

    def run(num_requests: int, **limits: int) -> tuple[list[object], Stats]:
        bench = Bench(FakeRunner(default_capabilities(**limits), script=b"the cat the hat "))
        requests = [
            ask("the cat the", f"number {i}", sampling=sampling, n=2, max_tokens=40, logprobs=1)
            for i in range(num_requests)
        ]
        return [story.essence for story in bench.run(*requests)], bench.scheduler.stats

    plain, _ = run(3, draft_rows=1)
    drafted, stats = run(1, draft_rows=16)
    assert stats.draft_tokens > 0
    assert drafted == plain[:1]
    crowded, stats = run(3, draft_rows=16, num_cells=160, num_slots=8, context_length=100)
    assert stats.preemptions > 0
    assert crowded == plain


def ending(sampling: Sampling, **request: object) -> tuple[str, str | int | None]:
    """The text and its stop, of a model that counts its digits and is stopped by one of them."""
    (story,) = scripted().run(ask("0", sampling=sampling, max_tokens=20, **request))
    return story.texts[0], story.finished[0].stop


def test_what_ended_a_text_is_part_of_it_where_asked_for() -> None:
    text, _ = ending(greedy(), stop=("34",))
    assert ending(greedy(), stop=("34",), include_stop=True) == (text + "34", "34")
    by_token = greedy(stop_token_ids=(ord("5"),))
    text, _ = ending(by_token)
    assert ending(by_token, include_stop=True) == (text + "5", ord("5"))


def test_control_tokens_are_shown_where_asked_for() -> None:
    always_end = greedy(logit_bias={EOS: 100.0})
    assert ending(always_end) == ("", None)
    assert ending(always_end, include_stop=True) == ("", None)
    assert ending(always_end, show_special=True) == ("", None)
    shown = ending(always_end, show_special=True, include_stop=True)
    assert shown == ("<|endoftext|>", None)


def test_preserved_tokens_are_shown_whatever_they_are() -> None:
    """Of the texts those that are one token; no others."""
    control = greedy(logit_bias={258: 100.0})
    kept = ("<|fim_prefix|>", "<|fim_suffix|>x", "")
    [story] = Bench().run(ask("0", sampling=control, max_tokens=2, preserved=kept))
    assert story.texts[0] == "<|fim_prefix|>" * 2
    assert story.prompted[0].preserved == (("<|fim_prefix|>", 258),)
    always_end = greedy(logit_bias={EOS: 100.0})
    assert ending(always_end, preserved=("<|endoftext|>",)) == ("<|endoftext|>", None)


@pytest.mark.parametrize(
    ("texts", "ids", "expected"),
    [
        ((("A", 90.0), ("B", 80.0)), {65: -90.0}, "BBB"),
        ((("A", 50.0), ("A", 50.0), ("B", 80.0)), {}, "AAA"),
        ((("AC", -math.inf), ("B", 80.0), ("A", 90.0)), {65: 90.0}, "BBB"),
    ],
)
def test_biases_of_one_token_add_up(
    texts: tuple[tuple[str, float], ...], ids: dict[int, float], expected: str
) -> None:
    """As in llama.cpp: the ban of a text is not undone by another text with the same token."""
    sampling = greedy(text_bias=texts, logit_bias=ids)
    assert Bench().run(ask("x", sampling=sampling, max_tokens=3))[0].texts[0] == expected
