"""Which tokens go where a context is full."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.bounds import LEAST_DROPPED
from segue.engine.request.window import Window, window_of
from segue.runners.fake import BOS, FakeVocab
from segue.types import Shift


class WithBos(FakeVocab):
    adds_bos = True


@pytest.mark.parametrize(
    ("how", "num_prompt", "window"),
    [
        # As llama.cpp tells them in its log: n_left = 255 - n_keep.
        (Shift(), 9, Window(256, 0, 127)),
        (Shift(num_kept=4), 9, Window(256, 4, 125)),
        (Shift(num_kept=-1), 55, Window(256, 55, 100)),
        (Shift(num_kept=4, num_dropped=60), 9, Window(256, 4, 60)),
        (Shift(num_kept=4, num_dropped=2**31 - 1), 9, Window(256, 4, 250)),
        # What would be read again for a few tokens each time is less here.
        (Shift(num_dropped=1), 9, Window(256, 0, 16)),
        (Shift(num_kept=2**31 - 1), 9, Window(256, 223, 16)),
        (Shift(num_kept=-1), 255, Window(256, 223, 16)),
    ],
)
def test_how_many_tokens_go(how: Shift, num_prompt: int, window: Window) -> None:
    assert window_of(how, [97] * num_prompt, FakeVocab(), 256) == window


def test_bos_is_not_counted() -> None:
    """As the tokenizer puts it in front; a prompt of token ids may have none."""
    prompt = [BOS, 97, 98]
    assert window_of(Shift(num_kept=4), prompt, WithBos(), 256).kept == 5
    assert window_of(Shift(num_kept=-1), prompt, WithBos(), 256).kept == 4
    assert window_of(Shift(num_kept=4), prompt[1:], WithBos(), 256).kept == 4
    assert window_of(Shift(num_kept=4), prompt, FakeVocab(), 256).kept == 4


@given(
    num_kept=st.integers(-1, 2**31),
    num_dropped=st.integers(0, 2**31),
    size=st.integers(2, 5000),
    share=st.floats(0, 1),
)
def test_there_is_always_room_for_more(
    num_kept: int, num_dropped: int, size: int, share: float
) -> None:
    """A shift drops its part of the context, and never the last token, which is not computed yet."""
    prompt = [97] * max(1, int(share * (size - 1)))
    how = Shift(num_kept=num_kept, num_dropped=num_dropped)
    _, kept, dropped = window_of(how, prompt, FakeVocab(), size)
    assert kept >= 0
    assert max(1, size // LEAST_DROPPED) <= dropped
    assert kept + dropped <= size - 1
