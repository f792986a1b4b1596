from hypothesis import given
from hypothesis import strategies as st

from segue.engine.request.detokenizer import Detokenizer


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
