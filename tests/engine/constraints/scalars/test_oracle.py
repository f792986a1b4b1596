"""What the compiler says of terminals and of texts that begin them, held to Python's own regular expressions."""

import itertools
import re

import pytest

from segue.engine.constraints.scalars import oracle

TEXTS = ["".join(each) for num in range(5) for each in itertools.product("abé", repeat=num)]


@pytest.mark.parametrize("pattern", ["a*b", "a|aba|abab", "(ab)*", "é+a?", "", "[ab]{2,3}é"])
def test_a_text_begins_a_terminal_if_some_text_goes_on(pattern: str) -> None:
    terminal = f"/{pattern}/" if pattern else '""'
    longer = [each for each in TEXTS if re.fullmatch(pattern, each)]
    prefixes = {"": oracle.Prefix.of(terminal)}
    for text in TEXTS:
        prefix = prefixes[text]
        assert prefix.is_whole == oracle.matches(terminal, text) == (text in longer), text
        if len(text) < 4:
            goes_on = any(each.startswith(text) and each != text for each in longer)
            assert prefix.goes_on == goes_on, text
            prefixes |= {text + c: prefix.after(c) for c in "abé"}
