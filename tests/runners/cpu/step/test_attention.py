from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.runners.cpu.products.processor import possible
from segue.runners.cpu.step.attention.scratch import QUERY_PART
from tests.runners.cpu.conftest import load
from tests.runners.cpu.step.attention_alone import Text, attended
from tests.runners.cpu.step.attention_widths import asked, told
from tests.runners.cpu.translation.built import built
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

TOKENS = [(5 * i * i + i) % 256 for i in range(300)]


@pytest.mark.parametrize("size", [16, 48, 80, QUERY_PART, QUERY_PART + 16, 2 * QUERY_PART])
@pytest.mark.parametrize("key_heads", [1, 4])
def test_bits_do_not_depend_on_how_many_rows_share_a_tile(
    tmp_path: Path, size: int, key_heads: int
) -> None:
    """Heads of all widths: with columns left over, as wide as a row of scratch memory, and wider: in parts."""
    tiny = replace(MODELS["qwen3"], head_size=size, key_heads=key_heads)
    runner = load(write(tmp_path / "x.gguf", tiny), kv_bytes=16 << 20)
    rows: dict[int, Logits] = {}
    for chunk in (240, 1, 3, 17):
        for start in range(0, len(TOKENS), chunk):
            some = TOKENS[start : start + chunk]
            for i, row in enumerate(runner.decode([Span(0, some, start, len(some))]), start):
                np.testing.assert_array_equal(row, rows.setdefault(i, row.copy()))
        runner.free(0)
    runner.close()


@pytest.fixture(scope="module")
def kernel() -> Callable[..., int]:
    return built(attended, 1)


def text(positions: int, tokens: int = 700, size: int = 32) -> Text:
    """Scores are a few units wide."""
    random = np.random.default_rng(3)
    keys, values = (random.standard_normal((tokens, size)).astype(np.float16) for _ in range(2))
    queries = (random.standard_normal((positions, 3, size)) / 2).astype(np.float32)
    return Text(keys, values, queries)


def with_scores(some: Text, scores: NDArray[np.float64]) -> Text:
    """The same with tokens that have these scores, which floats hold, for every query."""
    keys, queries = some.keys.copy(), np.zeros_like(some.queries)
    keys[:, 0] = scores / 512
    queries[..., 0] = 512
    return replace(some, keys=keys, queries=queries)


# Of ALiBi: one under which a row sees little but its own token, one in between, one under which it sees all.
SLOPES = np.array([20.0, 2.0**-2, 2.0**-8], np.float32)
LENGTH = np.arange(700.0)
SHAPES = {
    "alike": 0 * LENGTH,
    "growing": LENGTH / 2,
    "falling": -LENGTH / 2,
    "one far above": np.where(LENGTH == 400, 500.0, 0.0),
    "all above, then below": np.where(LENGTH < 300, 30_000.0, -30_000.0),
    "all below, then above": np.where(LENGTH < 300, -30_000.0, 30_000.0),
    "millions": np.where(LENGTH % 100 == 7, 2.0**24, -(2.0**24)),
}


@pytest.mark.parametrize("positions", [1, 2, 5, 32])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_it_computes_is_what_the_definition_says(
    kernel: Callable[..., int], positions: int, shape: str
) -> None:
    some = with_scores(text(positions), SHAPES[shape])
    np.testing.assert_allclose(some.computed(kernel), some.defined(), atol=3e-6)


@pytest.mark.parametrize("positions", [1, 32])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"window": 1},
        {"window": 100},
        {"window": 300},
        {"cap": 3.0},
        {"sinks": np.array([-100.0, 2.0, 100.0], np.float32)},
        {"window": 40, "cap": 5.0, "sinks": np.array([0.0, 4.0, -4.0], np.float32)},
        {"slopes": SLOPES},
        {"window": 300, "slopes": SLOPES},
        {"cap": 3.0, "slopes": SLOPES},
    ],
)
def test_windows_caps_sinks_and_slopes(
    kernel: Callable[..., int], positions: int, changes: dict[str, object]
) -> None:
    some = replace(text(positions), **changes)  # type: ignore[arg-type]
    np.testing.assert_allclose(some.computed(kernel), some.defined(), atol=3e-6)


@pytest.mark.parametrize("positions", [1, 8])
def test_slopes_reach_over_long_texts(kernel: Callable[..., int], positions: int) -> None:
    """Scores fall below -300,000; those of the least slope by 1 only, so that all tokens count."""
    slopes = np.array([20.0, 0.01, 2.0**-14], np.float32)
    some = replace(text(positions, tokens=1 << 14, size=16), slopes=slopes)
    np.testing.assert_allclose(some.computed(kernel), some.defined(), atol=3e-6)


@pytest.mark.parametrize("positions", [1, 32])
@pytest.mark.parametrize("shape", [*SHAPES][:-1])  # floats do not hold the sums of the last one
def test_slopes_do_not_hide_tokens_far_away(
    kernel: Callable[..., int], positions: int, shape: str
) -> None:
    """Whose scores are so high that they count, however far they fall."""
    some = replace(with_scores(text(positions), SHAPES[shape]), slopes=SLOPES)
    np.testing.assert_allclose(some.computed(kernel), some.defined(), atol=3e-6)


@pytest.mark.parametrize("window", [0, 300])
def test_slopes_give_a_row_the_same_bits_in_every_tile(
    kernel: Callable[..., int], window: int
) -> None:
    some = replace(text(positions=32), slopes=SLOPES, window=window)
    whole, tokens = some.computed(kernel), len(some.keys)
    for first, end in [(0, 1), (0, 3), (3, 20), (20, 31), (31, 32)]:
        seen = tokens - 32 + end
        part = replace(
            some,
            keys=some.keys[:seen],
            values=some.values[:seen],
            queries=some.queries[first:end].copy(),
        )
        np.testing.assert_array_equal(part.computed(kernel), whole[first:end])


@pytest.mark.parametrize("positions", [1, 8])  # few rows, and several tiles
def test_tokens_of_a_long_text_are_not_lost_below_the_last_place_of_its_sum(
    kernel: Callable[..., int], positions: int
) -> None:
    """Segments have sums of their own: a chain of 16,384 additions would be off by 1e-4."""
    some = text(positions, tokens=1 << 14, size=16)
    alike = with_scores(replace(some, values=some.values[:1].repeat(1 << 14, 0)), np.full(1, 0.3))
    np.testing.assert_allclose(alike.computed(kernel), alike.defined(), rtol=1e-5)


def test_the_sign_of_a_0_does_not_tell_of_tokens_that_a_row_does_not_see(
    kernel: Callable[..., int],
) -> None:
    """All that the row before the last sees is lost below the least number, or is -0."""
    least = 2.0**-24
    parts = [(256, 0, -least), (256, 300, -0.0), (1, 474, -least), (1, 600, -0.0), (1, 0, 1.0)]
    counts, scores, values = (np.array(column) for column in zip(*parts, strict=True))
    some = text(positions=2, tokens=515)
    some.values[:] = values.repeat(counts)[:, None]
    both = with_scores(some, scores.repeat(counts))
    alone = replace(
        both, keys=both.keys[:-1], values=both.values[:-1], queries=both.queries[:1]
    ).computed(kernel)
    assert alone[0].tobytes() == both.computed(kernel)[0].tobytes()


WIDTHS = {(each.lanes >= 16, each.has_halves, each.arch): each for each in possible()}


def test_registers_of_every_width_that_this_machine_has_give_the_same_bits() -> None:
    """The other tests here have the kernels for narrow ones, with instructions for halves."""
    is_here = {each: each.arch and each.lanes < 16 and each.has_halves for each in WIDTHS.values()}
    digests = {each.name: told(each) if here else asked(each) for each, here in is_here.items()}
    assert len(set(digests.values())) == 1, digests


def test_codes_of_8_bits_give_the_same_bits_with_every_width_too() -> None:
    """Near to what the definition says of the numbers that are kept."""
    digests = {each.name: asked(each, "q8_0") for each in WIDTHS.values()}
    assert len(set(digests.values())) == 1, digests
