"""A guide that tells its masks to others, also before it has accepted the tokens that are forced."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.errors import EngineFault
from segue.runners.fake import EOS, VOCAB_SIZE, FakeVocab
from tests.engine.constraints.guided import compiled, regex
from tests.engine.constraints.lazy_masks import LazyMasks, use
from tests.engine.constraints.test_guide import TANGLED, letters

Bits = NDArray[np.uint8]


class Told:
    def __init__(self) -> None:
        self.said: list[set[int] | None] = []

    def __call__(self, allowed: Bits | None) -> None:
        bits = None if allowed is None else np.unpackbits(allowed, bitorder="little")
        self.said.append(None if bits is None else set(np.flatnonzero(bits).tolist()))


def allowed(guide: Guide) -> set[int]:
    row = np.zeros(VOCAB_SIZE, np.float32)
    assert guide.apply(row)
    return set(np.flatnonzero(row == 0).tolist())


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> LazyMasks:
    return use(monkeypatch)


def test_a_mask_is_told_when_it_is_found(masks: LazyMasks) -> None:
    guide, told = Guide(compiled(regex("[ab]+[cd]"))), Told()
    guide.tell(told)
    assert told.said == [{*b"ab"}], "known from the start"
    guide.accept(ord("a"))
    guide.tell(told)
    assert len(told.said) == 1
    masks.find_all()
    assert told.said[1] == {*b"abcd"} == allowed(guide)
    guide.tell(told)
    assert told.said[2] == told.said[1]


def test_forced_tokens_and_what_follows_them_are_told_early(masks: LazyMasks) -> None:
    guide, told = Guide(compiled(regex("[ab]three[cd]*"))), Told()
    guide.accept(ord("b"))
    masks.find_all()
    for count in range(5):
        guide.tell(told, count)
    assert told.said == [{token} for token in b"three"]
    guide.tell(told, 5)
    masks.find_all()
    assert told.said[5] == {*b"cd", EOS}
    num_found = masks.num_found
    for token in b"three":
        assert guide.is_ready
        assert not guide.accept(token)
    assert guide.is_ready
    assert allowed(guide) == told.said[5]
    masks.find_all()
    assert masks.num_found == num_found, "the guide takes over what it told"
    guide.accept(ord("c"))
    assert not guide.is_ready, "the next one is found anew"
    assert allowed(guide) == told.said[5]


def test_a_guide_knows_nothing_beyond_forced_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """Its request goes on: whoever tells for one tells for others too."""
    guide, told = Guide(compiled(regex("ab[cd]"))), Told()
    guide.tell(told, 3)
    assert told.said == [None]
    assert "not forced" in caplog.text
    assert allowed(guide) == {*b"a"}


def test_an_early_mask_is_not_used_after_other_tokens(masks: LazyMasks) -> None:
    """The step that it was for may have been left, and the request have gone another way."""
    guide, told = Guide(compiled(regex("ab[cd]{5}"))), Told()
    guide.tell(told, 2)
    for token in b"abc":
        guide.accept(token)
    assert allowed(guide) == {*b"cd"}
    for token in b"ddd":
        guide.accept(token)
    masks.find_all()
    assert told.said == [{*b"cd"}]
    assert allowed(guide) == {*b"cd"}
    assert guide.accept(ord("c"))


def test_nothing_is_told_where_the_text_is_over(masks: LazyMasks) -> None:
    guide, told = Guide(compiled(regex("abc"))), Told()
    guide.tell(told, 3)
    masks.find_all()
    assert told.said == [None]
    assert [guide.accept(token) for token in b"abc"] == [False, False, True]


@pytest.mark.parametrize("is_found", [True, False])
def test_where_an_early_mask_meets_a_full_lexer_a_fresh_one_decides(
    masks: LazyMasks, is_found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as without an early one, whether that was found before its tokens were accepted or not."""
    monkeypatch.setattr("segue.engine.constraints.compiler.MAX_STATES", 400)
    shared = Compiler(FakeVocab(), VOCAB_SIZE).compile(TANGLED)
    guide, other, told = Guide(shared), Guide(shared), Told()
    for token in b"aaaaaaaaaaaaac!!!":
        guide.accept(token)
        guide.wait()
    for token in letters(1, 300):
        other.accept(token)
        other.wait()
        if not shared.is_sound:
            break
    guide.tell(told, 2)
    if is_found:
        masks.find_all()
    assert [guide.accept(token) for token in b"!!"] in ([False, True], [False, False])
    masks.find_all()
    assert told.said == [None]
    assert guide.forced == ()


def test_none_is_told_if_a_mask_cannot_be_found(
    masks: LazyMasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide, told = Guide(compiled(regex("[ab]+"))), Told()

    def fail(*_: Any) -> Any:
        raise ValueError("no mask")

    guide.accept(ord("a"))
    monkeypatch.setattr(Grammar, "mask", fail)
    guide.tell(told)
    masks.find_all()
    assert told.said == [None]
    assert guide.is_ready
    assert guide.wait()
    assert guide.forced == ()
    with pytest.raises(EngineFault, match="constraint"):
        guide.apply(np.zeros(VOCAB_SIZE, np.float32))


def test_a_draft_ends_where_a_mask_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scout = Guide(compiled(regex("[ab]+"))).scout()

    def fail(*_: Any) -> Any:
        raise ValueError("no mask")

    monkeypatch.setattr(Grammar, "mask", fail)
    assert scout is not None
    assert not scout.accept(ord("a"))
