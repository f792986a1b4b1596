import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.runners.llama.special_blocks import _MAX_SPECIALS, _MIN_CHARS, SpecialBlocks
from segue.runners.llama.vocab import LlamaVocab
from tests.runners.llama.test_vocab import vocab  # noqa: F401 - a fixture
from tests.support.models import tiny_gguf as tiny

SPECIALS = [tiny.END, *tiny.FIM.values()]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, "a", " ", "x" * 300, "\n"]), max_size=300))
def test_blocks_are_the_text_and_each_is_short_of_specials(parts: list[str]) -> None:
    text = "".join(parts)
    blocks = SpecialBlocks(SPECIALS).split(text)
    assert "".join(blocks) == text
    assert all(sum(map(block.count, SPECIALS)) <= 2 * _MAX_SPECIALS + 1 for block in blocks)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from([*SPECIALS, "the", " and ", "é", " "]), min_size=1, max_size=40))
def test_the_same_tokens_as_in_one_go(vocab: LlamaVocab, parts: list[str]) -> None:  # noqa: F811
    text = "".join(parts)
    text *= 1 + 2 * _MIN_CHARS // len(text)
    assert vocab.tokenize(text, True, True) == vocab._tokenize(text, True, True)


def test_tokenizing_is_linear_in_special_tokens(
    vocab: LlamaVocab,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call of llama.cpp's gets more than a block, however many there are."""
    sizes: list[int] = []
    in_one_go = vocab._tokenize

    def counted(text: str, add_special: bool, parse_special: bool) -> list[int]:
        sizes.append(text.count(tiny.END))
        return in_one_go(text, add_special, parse_special)

    monkeypatch.setattr(vocab, "_tokenize", counted)
    assert len(vocab.tokenize(f"{tiny.END}a" * 2000, False, True)) == 4000
    assert max(sizes) <= _MAX_SPECIALS
