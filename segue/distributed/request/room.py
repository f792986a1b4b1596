"""How many tokens vLLM's second model runner, that of GPUs, has room for in a request.

vLLM checks it where nobody is left to be told: its engine dies of more, and every open request with it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from segue.distributed.request.mapping import logit_biases
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Vocab
from segue.errors import InvalidField
from segue.types import Sampling


class Room(NamedTuple):
    biases: int
    allowed: int
    stops: int  # that min_tokens holds back, the model's end tokens included
    bad_words: int  # the tokens of all of them


def check_room(room: Room, sampling: Sampling, rules: TokenRules, vocab: Vocab) -> None:
    """Raises InvalidField if the request names more tokens than there is room for."""
    held_back = rules.stops | rules.ends if sampling.min_tokens > 0 else ()
    for field, number, most, what in (
        ("logit_bias", len(logit_biases(sampling, rules)), room.biases, "ignored end tokens"),
        ("allowed_token_ids", len(sampling.allowed_token_ids or ()), room.allowed, ""),
        ("stop_token_ids", len(held_back), room.stops, "end tokens, with min_tokens"),
        ("bad_words", _num_tokens(sampling.bad_words, vocab), room.bad_words, ""),
    ):
        if number > most:
            those = f" ({what} included)" if what else ""
            raise InvalidField(
                f"{field}: the vLLM engine takes at most {most} tokens here, and these are {number}{those}",
                field,
            )


def _num_tokens(words: Iterable[str], vocab: Vocab) -> int:
    """Tokens of all words as vLLM reads them: each at the beginning of a text, and after a space if that is as long."""
    number = 0
    for word in dict.fromkeys(words):
        plain, spaced = (vocab.tokenize(lead + word.lstrip(), False, True) for lead in ("", " "))
        is_other = len(spaced) == len(plain) and spaced[:1] != plain[:1]
        number += len(plain) + (len(spaced) if is_other else 0)
    return number
