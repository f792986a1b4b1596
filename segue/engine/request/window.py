"""Context shift: an answer that fills the context goes on, with fewer of the tokens before it.

    [ kept | dropped | rest ................. ]   as many as the context holds
    [ kept | rest ................. | new ... ]   what goes on is a text of its own: its KV is computed again

So logits depend on the window's tokens alone, and those on the request alone.
"""

from typing import NamedTuple

from segue.bounds import LEAST_DROPPED
from segue.engine.seam import Vocab
from segue.types import Shift


class Window(NamedTuple):
    size: int  # tokens that fill it: as many as the context holds
    kept: int  # at its start: they stay
    dropped: int  # after these: they go each time


def window_of(how: Shift, prompt: list[int], vocab: Vocab, size: int) -> Window:
    """As llama.cpp counts: without the last token, which is not computed yet, and with BOS beside what is kept.

    There what is dropped costs nothing; here the rest is read again. So a part of the context goes at the least, and so
    few tokens stay that there are twice as many.
    """
    least = max(size // LEAST_DROPPED, 1)
    kept = len(prompt) if how.num_kept < 0 else how.num_kept
    kept += vocab.adds_bos and prompt[:1] == [vocab.bos]
    kept = max(min(kept, size - 1 - 2 * least), 0)
    left = size - 1 - kept
    dropped = max(how.num_dropped or left // 2, least)
    return Window(size, kept, min(dropped, max(left - 1, 1)))
