"""An automaton and its expression read the same texts."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from segue.engine.constraints.automaton import Work
from segue.engine.constraints.grammar import Chars, Either, Node, Repeat, Seq, Shared, Step
from segue.engine.constraints.lazy.expression import expression

TEXTS = ["".join(each) for num in range(7) for each in itertools.product("ab", repeat=num)]
States = list[list[Step]]


@st.composite
def automata(draw: st.DrawFn) -> States:
    """Deterministic ones; where a text may end hangs on the state that it leads to."""
    num = draw(st.integers(1, 5))
    ends = {number for number in range(num) if draw(st.booleans())} or {0}
    states: States = []
    for _ in range(num):
        targets = [draw(st.none() | st.integers(0, num - 1)) for _ in "ab"]
        states.append(
            [
                Step(((ord(c), ord(c)),), target, target in ends)
                for c, target in zip("ab", targets, strict=True)
                if target is not None
            ]
        )
    return states


def reads(states: States, text: str) -> bool:
    at, is_end = 0, _starts_at_end(states)
    for c in text:
        steps = [step for step in states[at] if step.ranges[0][0] == ord(c)]
        if not steps:
            return False
        at, is_end = steps[0].target, steps[0].is_end
    return is_end


def _starts_at_end(states: States) -> bool:
    return any(step.is_end for state in states for step in state if step.target == 0)


def regex(node: Node) -> str:
    match node:
        case Shared(inner):
            return regex(inner)
        case Chars(ranges):
            return "[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges) + "]"
        case Seq(items):
            return "".join(map(regex, items))
        case Either(options):
            return f"(?:{'|'.join(map(regex, options))})"
        case Repeat(item, 0, None):
            return f"(?:{regex(item)})*"
    raise TypeError(node)


@given(automata())
def test_the_same_texts(states: States) -> None:
    wanted = {text for text in TEXTS if reads(states, text)}
    if not any(step.is_end for state in states for step in state):
        return
    if not _leads_to_an_end(states):
        return
    found = re.compile(regex(expression(states, _starts_at_end(states), Work(100_000))))
    assert {text for text in TEXTS if found.fullmatch(text)} == wanted


def _leads_to_an_end(states: States) -> bool:
    seen, waiting = {0}, [0]
    while waiting:
        for step in states[waiting.pop()]:
            if step.is_end:
                return True
            if step.target not in seen:
                seen.add(step.target)
                waiting.append(step.target)
    return _starts_at_end(states)


def test_long_words_stay_short() -> None:
    """Parts that stand in several places are written once."""
    word = "<tool_call>" * 9
    states = [
        [Step(((ord(c), ord(c)),), at + 1, at + 1 == len(word)), Step(((0, 32),), 0, False)]
        for at, c in enumerate(word)
    ]
    seen: set[int] = set()

    def size(node: Node) -> int:
        match node:
            case Shared(inner):
                if id(node) in seen:
                    return 1
                seen.add(id(node))
                return 1 + size(inner)
            case Seq(items) | Either(items):
                return 1 + sum(map(size, items))
            case Repeat(item):
                return 1 + size(item)
        return 1

    assert size(expression([*states, []], False, Work(100_000))) < 20 * len(word)
