"""Triggers as a request has them: which are looked for in the text, and which are tokens."""

from collections.abc import Sequence
from typing import NamedTuple

from segue.engine.constraints.grammar import GrammarError, Literal, Node
from segue.engine.constraints.lazy import patterns
from segue.engine.constraints.lazy.program import Program, program
from segue.engine.constraints.tokens import KnownTokens
from segue.types import Trigger

MAX_TRIGGERS = 100
MAX_WORD = 256


class TriggerError(GrammarError):
    """What is wrong with a trigger."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param  # the caller's name of it


class Wanted(NamedTuple):
    """Both by the number of the trigger."""

    programs: dict[int, Program]
    tokens: dict[int, int]  # the other way round: the trigger that a token is


def wanted(triggers: Sequence[Trigger], preserved: Sequence[str], known: KnownTokens) -> Wanted:
    """Raises TriggerError."""
    found = Wanted({}, {})
    if len(triggers) > MAX_TRIGGERS:
        raise TriggerError(f"there are more than {MAX_TRIGGERS}", triggers[0].param)
    kept = {ids[0] for ids in map(known.read, preserved) if len(ids) == 1}
    for number, trigger in enumerate(triggers):
        try:
            token = _token(trigger, kept, known)
            if token is None:
                found.programs[number] = program(_pattern(trigger))
            else:
                found.tokens.setdefault(token, number)
        except GrammarError as error:
            raise TriggerError(str(error), trigger.param) from None
    return found


def _token(trigger: Trigger, kept: set[int], known: KnownTokens) -> int | None:
    if trigger.kind == "token":
        token = trigger.token
        if not 0 <= token < known.size:
            raise GrammarError(f"the model has no token {token}")
        if token in known.ends:
            raise GrammarError(f"the token {token} ends the answer; nothing can follow it")
        return token
    read = known.read(trigger.value) if trigger.kind == "word" else ()
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
    if not trigger.value:
        raise GrammarError("it is empty")
    if len(trigger.value) > MAX_WORD:
        raise GrammarError(f"it has more than {MAX_WORD} characters")
    return Literal(trigger.value)
