from hypothesis import example, given
from hypothesis import strategies as st

from segue.detokenizer import Detokenizer


@given(st.binary(max_size=60), st.data())
def test_any_split_of_any_bytes_gives_the_same_text(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    detokenizer = Detokenizer()
    parts = zip([0, *cuts], [*cuts, len(raw)], strict=True)
    text = "".join(detokenizer.push(raw[a:b]) for a, b in parts) + detokenizer.flush()
    assert text == raw.decode("utf-8", "replace")


@given(st.text())
def test_never_shows_half_a_character(text: str) -> None:
    detokenizer, shown = Detokenizer(), ""
    for byte in text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode():
        shown += detokenizer.push(bytes([byte]))
        assert text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").startswith(shown)


def test_an_unfinished_character_ends_as_one_replacement() -> None:
    detokenizer = Detokenizer()
    assert detokenizer.push("🙂".encode()[:3]) == ""
    assert detokenizer.flush() == "\ufffd"


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=8))
@example([b"\xed", b"\xa0"])  # half a surrogate
@example([b"\xed\xa0", b"\x80"])
def test_where_a_piece_begins(pieces: list[bytes]) -> None:
    """At the character its first byte is part of: of all before it alone, that is the one begun last."""
    detokenizer, text, before = Detokenizer(), "", b""
    for piece in pieces:
        shown = detokenizer.push(piece)
        start = len(text) + detokenizer.num_before
        alone = before.decode("utf-8", "replace")
        joined = (before + piece[:1]).decode("utf-8", "replace")
        goes_on = bool(before) and len(joined) == len(alone)
        assert start == len(alone) - goes_on
        text += shown
        before += piece
