"""An editor's pace: a request a keystroke, each dropped for the next, about 1,000 tokens around the cursor."""

import pytest

from segue.runners.fake import FakeRunner, FakeVocab, default_capabilities
from segue.types import Infill, Prompt
from tests.engine.harness import Bench, ask

LINES = [f"def f{i}(x, y):\n    return x * {i} + y\n\n" for i in range(60)]
ABOVE, BELOW = "".join(LINES[:17])[:650], "".join(LINES[30:])[:350]
TYPED = (
    "def area(width, height):\n    if width < 0:\n        return 0\n    return width * height\n\n\n"
)
TYPED += (
    "def volume(width, height, depth):\n    return area(width, height) * depth\n\n\nprint(volume(1"
)


class PlainVocab(FakeVocab):
    fim = None


class Session:
    def __init__(self, vocab: FakeVocab, **infill: object) -> None:
        self.bench = Bench(FakeRunner(default_capabilities(draft_rows=1)), vocab, chunk_rows=256)
        self._infill = infill

    def prefilled(self, num_steps: int = 3, num_typed: int = len(TYPED)) -> list[int]:
        """Prompt tokens computed for each keystroke, of which each lets `num_steps` steps pass."""
        scheduler, runner = self.bench.scheduler, self.bench.runner
        counts = []
        for end in range(num_typed):
            infill = Infill(suffix=Prompt((BELOW,)), **self._infill)  # type: ignore[arg-type]
            request = ask(ABOVE + TYPED[:end], infill=infill, max_tokens=24)
            self.bench.submit(request)
            counts.append(0)
            for _ in range(num_steps):
                batch = scheduler.next_batch()
                assert batch is not None
                counts[-1] += batch.num_prompt_rows
                scheduler.learn(batch, 0.0)
                scheduler.commit(batch, runner.decode(batch.spans))
            scheduler.cancel(request.request_id)
            scheduler.check()
            assert scheduler.is_idle
            assert scheduler.stats.running == scheduler.stats.waiting == 0
        assert scheduler.stats.cancelled == num_typed
        return counts[1:]  # the first finds an empty cache


@pytest.mark.parametrize(
    ("vocab", "order", "most"),
    [(FakeVocab(), "auto", 40), (FakeVocab(), "spm", 8), (PlainVocab(), "auto", 40)],
    ids=["fim", "suffix first", "ranked"],
)
def test_a_keystroke_reads_little_again(vocab: FakeVocab, order: str, most: int) -> None:
    counts = Session(vocab, order=order).prefilled()
    assert sum(counts) / len(counts) < most


def test_a_typed_character_does_not_read_the_suffix_again_but_a_new_line_does() -> None:
    counts = Session(FakeVocab()).prefilled()[1:]
    num_lines = sum(not line.isspace() for line in TYPED.splitlines(keepends=True))
    assert sum(count > 10 for count in counts) <= num_lines
    assert max(counts) < len(BELOW) + 100


def test_prefix_then_suffix_reads_the_suffix_at_every_keystroke() -> None:
    """Why `auto` is not plain PSM."""
    counts = Session(FakeVocab(), order="psm").prefilled()
    assert min(counts) > len(BELOW)


def test_nothing_is_lost_over_a_session() -> None:
    session = Session(PlainVocab())
    session.prefilled(num_steps=12, num_typed=40)
    memory = session.bench.scheduler._state.memory
    while memory._evict():
        pass
    assert session.bench.runner.cells_free == session.bench.capabilities.num_cells
