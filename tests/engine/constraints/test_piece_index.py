import random

from segue.engine.constraints.piece_index import PieceIndex


def test_pieces_by_what_they_begin_with_and_hold() -> None:
    rng = random.Random(0)
    pieces = [bytes(rng.choices(b"ab\xc3\xa9\xff", k=rng.randint(0, 5))) for _ in range(500)]
    index = PieceIndex(pieces)
    for _ in range(200):
        text = bytes(rng.choices(b"ab\xc3\xa9", k=rng.randint(1, 3)))
        begins = {token for token, piece in enumerate(pieces) if piece.startswith(text)}
        # What goes on with a byte that is in no text may be left out.
        sure = {t for t in begins if pieces[t][len(text) : len(text) + 1] != b"\xff"}
        assert sure <= set(index.beginning_with(text).tolist()) <= begins
        holding = {token for token, piece in enumerate(pieces) if text in piece}
        assert set(index.holding(text)) == holding


def test_no_pieces_hold_nothing() -> None:
    assert not list(PieceIndex([]).holding(b"a"))
    assert not PieceIndex([]).beginning_with(b"a").size
