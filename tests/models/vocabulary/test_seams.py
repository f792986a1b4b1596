from segue.models.vocabulary.seams import Seams


def test_a_text_is_parted_before_spaces_that_no_token_crosses() -> None:
    assert Seams(["▁a", "▁▁", "b"]).part("▁▁ab▁c▁▁d") == ["▁▁ab", "▁c", "▁▁d"]
    assert Seams(["]▁x", "▁a"]).part("▁a]▁b▁c") == ["▁a]▁b", "▁c"]
    assert Seams([]).part("") == [""]
