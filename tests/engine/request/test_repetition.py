from hypothesis import example, given
from hypothesis import strategies as st

from segue.engine.request.repetition import RepetitionWatch
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import Repetition
from tests.engine.harness import Bench, ask


def ends_at(tokens: list[int], how: Repetition, min_tokens: int = 0) -> int | None:
    """How many tokens it takes to end."""
    watch = RepetitionWatch(how, min_tokens, len(tokens))
    return next((at for at, token in enumerate(tokens, 1) if watch.push(token)), None)


def is_repeating(tokens: list[int], how: Repetition) -> bool:
    """The same by definition."""
    for size in range(how.min_size, how.max_size + 1):
        pattern = tokens[-size:] * how.min_count
        if len(pattern) <= len(tokens) and tokens[-len(pattern) :] == pattern:
            return True
    return False


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(2, 4),
    st.integers(0, 12),
)
@example([1, 0, 0], 1, 0, 2, 0)  # before the first token there is none
@example([0, 0, 1, 1], 1, 0, 2, 3)  # the first repetition ends one token too early
def test_it_ends_where_the_definition_says(
    tokens: list[int], min_size: int, more: int, count: int, min_tokens: int
) -> None:
    how = Repetition(max_size=min_size + more, min_size=min_size, min_count=count)
    wanted = (
        at for at in range(max(min_tokens, 1), len(tokens) + 1) if is_repeating(tokens[:at], how)
    )
    assert ends_at(tokens, how, min_tokens) == next(wanted, None)


def test_the_largest_sizes_cost_nothing_where_they_have_no_room() -> None:
    assert ends_at([7, 8, 7, 8], Repetition(max_size=2**31 - 1)) == 4
    assert ends_at([7], Repetition(max_size=2**31 - 1)) is None


def test_the_prompt_does_not_count_and_the_limit_comes_first() -> None:
    how = Repetition(max_size=4)
    bench = Bench(FakeRunner(default_capabilities(), script=b"dcdcdcdc"))
    [story] = bench.run(ask([1, 2, 1, 2], max_tokens=9, repetition=how))
    end = story.finished[0]
    assert (story.texts[0], end.cause, end.reason, end.stop) == (
        "cdcd",
        "repetition",
        "length",
        None,
    )
    [story] = bench.run(ask([1, 2, 1, 2], max_tokens=4, repetition=how))
    assert story.finished[0].cause == "max_tokens"
