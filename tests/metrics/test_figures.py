"""What is counted of a request, read back as its model's figures."""

from dataclasses import dataclass

import pytest

from segue.metrics.figures import HISTOGRAMS, REASONS, ROW_SIZE, TOKEN_SECONDS, Figures, read
from segue.types import Buckets, Cause, Finished, Prompted, Reason, Served


@dataclass
class End:
    reason: Reason
    cause: Cause
    num_tokens: int
    counted: str


ENDS = [
    End("stop", "eos", 4, "stop"),
    End("length", "max_tokens", 1, "length"),
    End("stop", "repetition", 9, "repetition"),
    End("error", "dead_end", 0, "error"),
]


def served(figures: Figures) -> Served:
    row = [0.0] * ROW_SIZE
    for place, number in figures.numbers.items():
        row[place] += number
    return read(row)


def test_every_histogram_has_a_place_of_its_own() -> None:
    places = [place for each in HISTOGRAMS.values() for place in range(each.start, each.sum_at + 1)]
    assert sorted([*range(len(REASONS)), *places]) == list(range(ROW_SIZE))
    assert {"reasons", *HISTOGRAMS} == {*Served.__struct_fields__}


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.counted)
def test_a_choice_is_counted_by_why_it_ended(end: End) -> None:
    figures = Figures()
    figures.finished(Finished(0, end.reason, end.cause, end.num_tokens, None, 0.2, 3.0))
    told = served(figures)
    assert {name: number for name, number in told.reasons.items() if number} == {end.counted: 1}
    assert (told.answer_tokens.sum, sum(told.answer_tokens.counts)) == (end.num_tokens, 1)
    has_token = end.num_tokens > 0
    times = (told.prompt_s.sum, told.decode_s.sum, told.inference_s.sum)
    assert times == ((0.2, 3.0, 3.2) if has_token else (0, 0, 0))
    between = 3.0 / (end.num_tokens - 1) if end.num_tokens > 1 else 0
    assert told.token_s.sum == pytest.approx(between)


def test_prompts_and_choices_of_a_request_are_counted_each() -> None:
    figures = Figures()
    for prompt, tokens in enumerate([(1, 2, 3), (4,)]):
        figures.prompted(Prompted(prompt, tokens, 0))
    for choice, num_tokens in enumerate([5, 700]):
        figures.finished(Finished(choice, "length", "max_tokens", num_tokens))
    figures.answered()
    told = served(figures)
    assert (told.prompt_tokens.sum, sum(told.prompt_tokens.counts)) == (4, 2)
    assert (told.answer_tokens.sum, sum(told.answer_tokens.counts)) == (705, 2)
    assert (told.longest_tokens.sum, sum(told.longest_tokens.counts)) == (700, 1)


def test_a_value_is_in_the_bucket_that_ends_at_it() -> None:
    figures = Figures()
    for seconds in (0.001, 0.005, 0.0051, 9.0):
        figures.observe("gap_s", seconds)
    figures.gaps([3.0, *[0.0] * len(TOKEN_SECONDS), 0.0015])
    gaps: Buckets = served(figures).gap_s
    counts = dict(zip((*TOKEN_SECONDS, "above"), gaps.counts, strict=True))
    assert {end: n for end, n in counts.items() if n} == {0.001: 4, 0.005: 1, 0.0075: 1, "above": 1}
    assert gaps.sum == pytest.approx(9.0126)
