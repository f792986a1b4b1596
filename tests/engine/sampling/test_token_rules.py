from pathlib import Path

import pytest

from segue.engine.sampling.token_rules import MAX_BREAKERS, TokenRules, biases, token_rules
from segue.errors import InvalidField
from segue.runners.fake import EOS, FakeVocab
from segue.runners.llama.vocab import LlamaVocab
from segue.types import Sampling


@pytest.mark.parametrize(
    ("field", "sampling"),
    [
        ("logit_bias", Sampling(logit_bias={264: 1.0})),
        ("logit_bias", Sampling(logit_bias={-1: 1.0})),
        ("stop_token_ids", Sampling(stop_token_ids=(999,))),
        ("allowed_token_ids", Sampling(allowed_token_ids=(0, 264))),
        ("allowed_token_ids", Sampling(allowed_token_ids=())),
        ("bad_words", Sampling(bad_words=("a", ""))),
        ("bad_words", Sampling(bad_words=("a",) * 1025)),
        (
            "dry_sequence_breakers",
            Sampling(dry_multiplier=1.0, dry_sequence_breakers=("x",) * (MAX_BREAKERS + 1)),
        ),
        (
            "dry_sequence_breakers",
            Sampling(dry_multiplier=1.0, dry_sequence_breakers=("x", "é" * 129)),
        ),
    ],
)
def test_what_does_not_fit_the_model_is_named(field: str, sampling: Sampling) -> None:
    with pytest.raises(InvalidField) as caught:
        token_rules(sampling, FakeVocab(), 264)
    assert caught.value.param == field
    assert field in caught.value.message


def test_bad_words_are_banned_with_and_without_a_space(tiny_gguf: Path) -> None:
    vocab = LlamaVocab(tiny_gguf)
    rules = token_rules(Sampling(bad_words=("the", " and", "x", "é")), vocab, vocab.size)
    spelt = [b"".join(map(vocab.piece, word)) for word in rules.bad_words]
    assert spelt == [b"the", b" the", b"and", b" and", b"x", b"\xc3\xa9"]
    vocab.close()


def test_why_a_token_ends_the_text() -> None:
    plain = TokenRules(ends=frozenset({1, 2}), stops=frozenset({2, 3}))
    assert [plain.causes.get(token) for token in range(4)] == [None, "eos", "eos", "stop_token"]
    ignoring = TokenRules(ends=frozenset({1, 2}), stops=frozenset({2, 3}), ignores_ends=True)
    assert ignoring.causes[2] == "stop_token"
    passing = TokenRules(ends=frozenset({1, 2}), stops=frozenset({2, 3}), passes_ends=True)
    assert passing.causes == {2: "stop_token", 3: "stop_token"}


@pytest.mark.parametrize("is_constrained", [False, True])
def test_ends_are_passed_unless_a_constraint_takes_them_for_its_end(is_constrained: bool) -> None:
    rules = token_rules(Sampling(pass_eos=True), FakeVocab(), 264, is_constrained)
    assert (rules.passes_ends, rules.ignores_ends) == (not is_constrained, is_constrained)


def test_the_end_is_the_models_own() -> None:
    assert token_rules(Sampling(), FakeVocab(), 264).end == EOS


def test_a_bias_on_a_text_is_one_on_each_of_its_tokens() -> None:
    sampling = Sampling(text_bias=(("ab", 2.0), ("", 1.0)), logit_bias={97: 5.0})
    rules = token_rules(sampling, FakeVocab(), 264)
    assert rules.text_bias == {97: 2.0, 98: 2.0}
    assert biases(sampling, rules) == {97: 7.0, 98: 2.0}


def test_tokens_without_a_place_in_a_row_are_left_out() -> None:
    sampling = Sampling(text_bias=(("ab", 2.0),), bad_words=("a", "b", "ab"))
    rules = token_rules(sampling, FakeVocab(), 98)
    assert rules.text_bias == {97: 2.0}
    assert rules.bad_words == ((97,),)
    assert rules.ends == frozenset()
    assert token_rules(sampling, FakeVocab(), 264, more_ends=frozenset({3})).ends == {3, EOS}


def test_a_space_is_a_bad_word_too() -> None:
    assert token_rules(Sampling(bad_words=(" ",)), FakeVocab(), 264).bad_words == ((32,),)


def test_breakers_are_looked_for_where_dry_is_on() -> None:
    assert token_rules(Sampling(), FakeVocab(), 264).breakers == {}
    breakers = token_rules(Sampling(dry_multiplier=0.5), FakeVocab(), 264).breakers
    assert set(breakers) == set(b'\n:"*')
