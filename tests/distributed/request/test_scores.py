import pytest

from segue.distributed.request.scores import drawn_score, prompt_scores
from segue.runners.fake import FakeVocab
from segue.types import Alternative
from tests.distributed.stand_in import Entry, Flat

VOCAB = FakeVocab()


def test_a_prompt_of_three_tokens() -> None:
    """The token itself comes first, whether or not it is among the likeliest."""
    flat = Flat([70, 65, 66, 65, 65, 67], [-9.0, -1.0, -2.0, -0.5, -0.5, -3.0], [9, 1, 2, 1, 1, 2])
    scores = prompt_scores(flat, 3)
    first, second = scores.tokens([70, 65], VOCAB.piece)
    assert (first.token, first.logprob, first.rank) == (70, -9.0, 9)
    assert first.top == (Alternative(65, b"A", -1.0), Alternative(66, b"B", -2.0))
    assert (second.logprob, second.rank) == (-0.5, 1)
    assert [each.token for each in second.top] == [65, 67]


def test_a_prompt_of_one_token_has_no_scores() -> None:
    assert len(prompt_scores(Flat([], [], []), 1)) == 0


@pytest.mark.parametrize("num_top", [0, 1, 2])
def test_a_drawn_token_outside_the_likeliest(num_top: int) -> None:
    likeliest = {65: Entry(-0.5, 1), 66: Entry(-1.5, 2)}
    entries = {70: Entry(-8.0, 6), **dict(list(likeliest.items())[:num_top])}
    score = drawn_score(70, entries, num_top, VOCAB, asked=())
    assert (score.token, score.piece, score.logprob, score.rank) == (70, b"F", -8.0, 6)
    assert [each.token for each in score.top] == [65, 66][:num_top]


def test_what_has_no_rank_is_no_alternative() -> None:
    score = drawn_score(70, {70: Entry(-8.0, None), 65: Entry(-0.5, 1)}, 1, VOCAB, asked=())
    assert (score.rank, [each.token for each in score.top]) == (0, [65])


def test_minus_infinity_is_a_number() -> None:
    entries = {70: Entry(float("-inf"), 2), 65: Entry(0.0, 1)}
    assert drawn_score(70, entries, 1, VOCAB, asked=()).logprob == -9999.0
