from segue.models.vocabulary.safe_cuts import SafeCuts


def test_a_text_is_parted_before_spaces_that_no_token_crosses() -> None:
    assert SafeCuts(["▁a", "▁▁", "b"]).part("▁▁ab▁c▁▁d") == ["▁▁ab", "▁c", "▁▁d"]
    assert SafeCuts(["]▁x", "▁a"]).part("▁a]▁b▁c") == ["▁a]▁b", "▁c"]
    assert SafeCuts([]).part("") == [""]
