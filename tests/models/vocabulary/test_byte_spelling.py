from hypothesis import given
from hypothesis import strategies as st

from segue.models.vocabulary import byte_spelling
from tests.support.models.tiny_gguf import byte_alphabet


def test_the_alphabet_is_gpt_2s() -> None:
    assert byte_alphabet() == byte_spelling.ALPHABET


@given(st.text())
def test_what_is_spelled_is_read(text: str) -> None:
    spelled = byte_spelling.spell(text)
    assert byte_spelling.is_spelled(spelled)
    assert byte_spelling.read(spelled) == text.encode()


def test_other_characters_are_not_of_the_alphabet() -> None:
    assert not byte_spelling.is_spelled("a b")
    assert not byte_spelling.is_spelled("日")
    assert byte_spelling.of_byte(10) == "<0x0A>"
