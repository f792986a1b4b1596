"""Triggers as a request has them: which are looked for in the text, and which are tokens."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from segue.engine.constraints.grammar import GrammarError, Literal, Node
from segue.engine.constraints.lazy import patterns
from segue.engine.constraints.lazy.program import Program, program
from segue.engine.constraints.tokens import KnownTokens
from segue.types import Trigger

MAX_TRIGGERS = 100  # where one is a pattern
MAX_WORDS = 1000
MAX_WORD = 256
MAX_CHARS = 32_768  # of all words


class TriggerError(GrammarError):
    """What is wrong with a trigger."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param  # the caller's name of it


def never_fits(param: str) -> TriggerError:
    return TriggerError(
        "the grammar matches nothing that begins with what this trigger gives to it", param
    )


class Wanted(NamedTuple):
    """Both by the number of the trigger."""

    programs: dict[int, Program]
    tokens: dict[int, int]  # the other way round: the trigger that a token is


class WantedWords(NamedTuple):
    """The same where no trigger is a pattern."""

    words: dict[int, str]
    tokens: dict[int, int]
    params: tuple[str, ...]  # the caller's names of them


def wanted(triggers: Sequence[Trigger], preserved: Sequence[str], known: KnownTokens) -> Wanted:
    """Raises TriggerError."""
    if len(triggers) > MAX_TRIGGERS:
        raise TriggerError(
            f"there are more than {MAX_TRIGGERS}; {MAX_WORDS} may be where all are texts and tokens, and the grammar "
            "names no tokens",
            triggers[0].param,
        )
    found = Wanted({}, {})
    for number, token in enumerate(_tokens(triggers, preserved, known)):
        if token is None:
            with _naming(triggers[number]):
                found.programs[number] = program(_pattern(triggers[number]))
        else:
            found.tokens.setdefault(token, number)
    return found


def wanted_words(
    triggers: Sequence[Trigger], preserved: Sequence[str], known: KnownTokens
) -> WantedWords | None:
    """The same; None if one is a pattern. Raises TriggerError."""
    if any(trigger.kind not in ("word", "token") for trigger in triggers):
        return None
    if len(triggers) > MAX_WORDS:
        raise TriggerError(f"there are more than {MAX_WORDS}", triggers[0].param)
    found = WantedWords({}, {}, tuple(trigger.param for trigger in triggers))
    for number, token in enumerate(_tokens(triggers, preserved, known)):
        if token is None:
            with _naming(triggers[number]):
                found.words[number] = _word(triggers[number])
        else:
            found.tokens.setdefault(token, number)
    if sum(map(len, found.words.values())) > MAX_CHARS:
        raise TriggerError(f"together they have more than {MAX_CHARS} characters", found.params[0])
    return found


@contextmanager
def _naming(trigger: Trigger) -> Iterator[None]:
    """Mistakes are those of this trigger."""
    try:
        yield
    except GrammarError as error:
        raise TriggerError(str(error), trigger.param) from None


def _tokens(
    triggers: Sequence[Trigger], preserved: Sequence[str], known: KnownTokens
) -> Iterator[int | None]:
    """The token that each is. None if it is looked for in the text."""
    kept = {ids[0] for ids in map(known.read, preserved) if len(ids) == 1}
    for trigger in triggers:
        with _naming(trigger):
            token = _token(trigger, kept, known)
        yield token


def _token(trigger: Trigger, kept: set[int], known: KnownTokens) -> int | None:
    if trigger.kind == "token":
        token = trigger.token
        if not 0 <= token < known.size:
            raise GrammarError(f"the model has no token {token}")
        if token in known.ends:
            raise GrammarError(f"the token {token} ends the answer; nothing can follow it")
        return token
    read = known.read(_word(trigger)) if trigger.kind == "word" else ()
    if len(read) != 1:
        return None
    if read[0] not in kept:
        raise GrammarError(
            f"{trigger.value!r} is one token of the model, {read[0]}, and must be among the preserved tokens"
        )
    return read[0]


def _pattern(trigger: Trigger) -> Node:
    if trigger.kind == "pattern_full":
        return patterns.read(patterns.anchored(trigger.value))
    if trigger.kind == "pattern":
        return patterns.read(trigger.value)
    return Literal(_word(trigger))


def _word(trigger: Trigger) -> str:
    word = trigger.value
    if not word:
        raise GrammarError("it is empty")
    if len(word) > MAX_WORD:
        raise GrammarError(f"it has more than {MAX_WORD} characters")
    if any("\ud800" <= c <= "\udfff" for c in word):
        raise GrammarError("it holds half a character: a lone surrogate")
    return word
