"""Token healing, for a prompt that ends inside a word or with a space: its last token is rare there in training text.

The last token is removed, and the answer must begin with a token whose text begins with the removed text. The removed
text is not part of the answer.
"""

from bisect import bisect_left
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from segue.engine.sampling.candidates import Index
from segue.engine.seam import Vocab
from segue.types import CompletionRequest, Prompt


class Healed(NamedTuple):
    token: int  # removed from the prompt
    text: bytes  # its text
    openings: Index  # tokens that begin with it, itself among them


def heal(
    request: CompletionRequest, prompt: Prompt, tokens: list[int], vocab: Vocab
) -> Healed | None:
    """None if the last token must stay: it was given as a token id, or another rule decides the next token."""
    sampling = request.sampling
    biases = sampling.logit_bias or sampling.text_bias
    rules = (sampling.allowed_token_ids, biases, sampling.bad_words)
    if request.constraint is not None or request.prompt_logprobs is not None or any(rules):
        return None
    ends_in_text = bool(prompt.parts) and isinstance(prompt.parts[-1], str)
    if len(tokens) < 2 or not ends_in_text or vocab.is_control(tokens[-1]):
        return None
    text = vocab.piece(tokens[-1])
    pieces, ids = _sorted_pieces(vocab)
    start = bisect_left(pieces, text)
    end = bisect_left(pieces, text + b"\xff" * 8, lo=start)
    return Healed(tokens[-1], text, ids[start:end])


_known: WeakKeyDictionary[Vocab, tuple[list[bytes], Index]] = WeakKeyDictionary()


def _sorted_pieces(vocab: Vocab) -> tuple[list[bytes], Index]:
    if vocab not in _known:
        tokens = [token for token in range(vocab.size) if not vocab.is_control(token)]
        tokens.sort(key=vocab.piece)
        _known[vocab] = [vocab.piece(token) for token in tokens], np.array(tokens, np.intp)
    return _known[vocab]
