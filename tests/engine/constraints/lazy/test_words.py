"""The search for many texts at once, held to one that tries each of them at every place."""

import random

from hypothesis import given
from hypothesis import strategies as st

from segue.engine.constraints.lazy.words import START, Hit, Words

TEXTS = st.lists(st.text("ab", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=6)
DATA = st.text("abc", max_size=14).map(str.encode)


def first(texts: list[bytes], data: bytes) -> Hit | None:
    for end in range(1, len(data) + 1):
        for number, text in enumerate(texts):
            if data[:end].endswith(text):
                return Hit(number, end)
    return None


@given(TEXTS, DATA)
def test_the_text_that_is_complete_first_counts(texts: list[bytes], data: bytes) -> None:
    """Of several the first in the list."""
    read = Words(dict(enumerate(texts))).read(START, data)
    assert (read if isinstance(read, Hit) else None) == first(texts, data)


@given(TEXTS, DATA, DATA)
def test_reading_goes_on_where_it_was_left(texts: list[bytes], one: bytes, other: bytes) -> None:
    words = Words(dict(enumerate(texts)))
    state = words.read(START, one)
    if isinstance(state, int):
        read, whole = words.read(state, other), first(texts, one + other)
        if isinstance(read, Hit):
            assert whole == Hit(read.number, len(one) + read.end)
        else:
            assert whole is None


@given(TEXTS, DATA)
def test_a_state_is_what_is_begun(texts: list[bytes], data: bytes) -> None:
    words = Words(dict(enumerate(texts)))
    state = words.read(START, data)
    if not isinstance(state, int):
        return
    beginnings = {text[:num] for text in texts for num in range(1, len(text) + 1)}
    begun = {words.read(START, each) for each in beginnings if data.endswith(each)}
    assert set(words.begun(state)) == begun
    for at in words.begun(state):
        for byte, to in words.onward(at).items():
            read = words.read(at, bytes((byte,)))
            assert words.is_complete(to) if isinstance(read, Hit) else read == to


def test_it_is_as_large_as_the_texts_together() -> None:
    """However they overlap: a thousand random ones, and those that are ends of each other."""
    rng = random.Random(1)
    texts = [bytes(rng.choices(b"ab", k=30)) for _ in range(1000)]
    texts += [texts[0][at:] for at in range(30)]
    assert len(Words(dict(enumerate(texts)))) <= 1 + sum(map(len, texts))
