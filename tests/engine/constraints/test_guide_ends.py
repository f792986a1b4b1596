"""How a guide knows where its text may end, and that nobody waits while it finds out."""

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from segue.engine.constraints import guide as guides
from segue.engine.constraints.compiler import Compiler
from segue.engine.constraints.guide import Guide
from segue.engine.scheduling.batch import Batch
from segue.runners.fake import VOCAB_SIZE, FakeRunner, FakeVocab
from segue.types import Constraint, Sampling
from tests.engine.constraints.guided import compiled, regex
from tests.engine.constraints.lazy_masks import LazyMasks, use
from tests.engine.constraints.test_guide import TANGLED, letters, masks
from tests.engine.harness import Bench, ask

TEXT = b"aaaaaaaaaaaaac!!!!!"  # matches TANGLED; what follows "c" is forced


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.engine.constraints.compiler.MAX_STATES", 400)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> LazyMasks:
    return use(monkeypatch)


def test_where_a_text_may_end_is_known_without_reading_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was read again, on the thread of all requests."""
    guide = Guide(compiled(regex("a(bc)*d?")))
    for token in b"abcbc":
        guide.accept(token)
    monkeypatch.setattr(guides, "_read", lambda *_: pytest.fail("the text is read again"))
    assert guide.may_end() == [False, True, False, True, False, True]
    assert guide.is_whole


@pytest.mark.usefixtures("narrow")
def test_a_lexer_that_has_failed_tells_no_ends() -> None:
    constraint = regex("[ab]*(a[ab]{12}c)?")
    shared = Compiler(FakeVocab(), VOCAB_SIZE).compile(constraint)
    guide = Guide(shared)
    guide.accept(ord("a"))
    guide.wait()
    masks(shared, letters(1, 400))
    assert not shared.is_sound
    for token in b"bb":
        guide.accept(token)
    assert guide.may_end() == [True] * 4


class _JustNow(Future[Any]):
    """Comes between two looks at it, and brings nothing: a fresh lexer may know more."""

    looks = 0

    def done(self) -> bool:
        self.looks += 1
        if self.looks == 2:
            self.set_result(None)
        return super().done()


def test_an_early_mask_that_comes_between_two_looks_is_not_ready_if_it_brings_nothing(
    lazy: LazyMasks,
) -> None:
    """`is_ready` said yes, and whoever asked for the mask then waited for the next one."""
    guide = Guide(compiled(regex("[ab]three[cd]*")))
    guide.accept(ord("b"))
    lazy.find_all()
    guide.tell(lambda _: None, 5)
    early, _ = guide._early or pytest.fail("no mask was asked for early")
    guide._early = (early, _JustNow())
    for token in b"three":
        guide.accept(token)
    assert not guide.is_ready
    lazy.find_all()
    assert guide.is_ready
    assert guide.apply(np.zeros(VOCAB_SIZE, np.float32))


GREEDY = Sampling(temperature=0.0)
OPEN = regex("[ab]*a[ab]{12}c!{5}d?")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("is_preempted", [False, True])
@pytest.mark.parametrize(
    ("constraint", "max_tokens", "takes_mask", "cause"),
    [
        (TANGLED, len(TEXT), True, "constraint"),
        (TANGLED, len(TEXT) - 1, False, "max_tokens"),
        (OPEN, len(TEXT), True, "max_tokens"),
    ],
)
def test_nobody_waits_to_learn_whether_a_text_that_is_full_is_over(
    lazy: LazyMasks,
    constraint: Constraint,
    max_tokens: int,
    takes_mask: bool,
    cause: str,
    is_preempted: bool,
) -> None:
    """A new lexer reads the text for that. The thread of all requests waited for it."""
    bench = Bench(FakeRunner(script=TEXT))
    held = ask("x" * 20, constraint=constraint, max_tokens=max_tokens, sampling=GREEDY)
    free = ask("y", max_tokens=60, sampling=GREEDY)
    bench.submit(held)
    bench.submit(free)
    story, other = bench.stories[held.request_id], bench.stories[free.request_id]
    while len(story.texts[0]) < len(TEXT) - 5:
        lazy.find_all()
        assert bench.step()
    assert len(bench.jobs[0].sequences[0].forced) == 5
    masks(bench.compiler.compile(constraint), letters(1, 400))  # the lexer that they share is full
    num_awaited = lazy.num_awaited
    while other.done is None:
        assert bench.step()
    assert lazy.num_awaited == num_awaited
    assert (story.done is None) == takes_mask == bench.scheduler.awaits_mask
    if is_preempted and takes_mask:
        planner = bench.scheduler._planner
        planner._preempt(Batch(), planner._victims.next)
        while bench.step():
            pass
        assert story.done is None
    lazy.find_all()
    while bench.step():
        pass
    end = story.finished[0]
    assert (story.texts[0].encode(), end.cause) == (TEXT[:max_tokens], cause)
    assert end.num_tokens == max_tokens
