import pytest

from segue.errors import Unsupported
from segue.models.vocabulary.spelling import Spelling

BYTES = [bytes([byte]) for byte in range(256)]
SOME = [b" ", b"a", b"ab", "é".encode(), b"<0x0A>"]


def test_bytes_spell_everything() -> None:
    Spelling(BYTES).check("any 😀\ud800\0")
    Spelling([b"<0x%02X>" % byte for byte in range(256)]).check("any 😀")


def test_what_tokens_spell_needs_no_bytes() -> None:
    Spelling(SOME).check("a é\na")
    Spelling(SOME).check("")


@pytest.mark.parametrize(("text", "missing"), [("ab", "'b'"), ("é😀", "'😀'"), ("a\0", "x00")])
def test_what_nothing_spells_is_refused(text: str, missing: str) -> None:
    with pytest.raises(Unsupported, match=f"no tokens for .*{missing}"):
        Spelling(SOME).check(text)


def test_a_space_may_come_in_front() -> None:
    with pytest.raises(Unsupported, match="no tokens for ' '"):
        Spelling([b"a"]).check("a")
