"""RWKV's vocabulary: what escapes say, and the tokens of llama.cpp."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import ModelUnavailable, Unsupported
from segue.models.vocabulary.gguf_vocab import GgufVocab
from segue.models.vocabulary.longest_match import LongestMatch, incomplete, unescaped
from segue.runners.llama.vocab import LlamaVocab
from tests.models.vocabulary.test_gguf_vocab import TEXTS
from tests.support.models.vocabulary_files import CONTROL, NORMAL, UNUSED, Both, VocabularyFile

_SOURCE = (
    "It's 12345 the  quick\n\n  x\r\n   日本語 😀👩‍🚀 Привет é don'T <|im_end|> <s> \\ \\x41\t\"'"
)


def world(seed: int = 0) -> list[bytes]:
    """Tokens as the World vocabulary has them: <s>, all bytes, pieces of texts, which may begin or end in the middle of
    a character; then some that are not used.
    """
    draw, data = random.Random(seed), _SOURCE.encode()
    found = [bytes([byte]) for byte in range(256)]
    for _ in range(400):
        start = draw.randrange(len(data))
        found.append(data[start : start + draw.randint(2, 12)])
    escaped = [repr(token)[2:-1].encode() for token in found]
    return [*dict.fromkeys([b"<s>", *escaped]), *(b"[PAD%d]" % i for i in range(3))]


def file_of(tokens: list[bytes], **values: int | bool) -> VocabularyFile:
    kinds = [CONTROL, *[NORMAL] * (len(tokens) - 4), *[UNUSED] * 3]
    return VocabularyFile("rwkv", tokens, kinds, values=values)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    tokens = world()
    told = file_of(tokens, bos_token_id=0, eos_token_id=0, eot_token_id=tokens.index(b"\\n"))
    made = Both(told.write(tmp_path_factory.mktemp("rwkv") / "x.gguf"))
    yield made
    made.close()


def test_the_facts_are_those_of_llama_cpp(both: Both) -> None:
    both.check_facts()
    assert not both.ours.adds_bos


@given(TEXTS)
def test_the_tokens_are_those_of_llama_cpp(both: Both, text: str) -> None:
    both.check(text)


@given(st.lists(st.sampled_from([*_SOURCE, "<s>", "[PAD1]", _SOURCE]), max_size=30).map("".join))
def test_texts_that_have_long_tokens(both: Both, text: str) -> None:
    both.check(text)


@pytest.mark.parametrize("values", [{"add_bos_token": True}, {"unknown_token_id": 2}])
def test_what_a_file_says_beside_its_tokens(tmp_path: Path, values: dict[str, int | bool]) -> None:
    file = file_of(
        [b"<s>", b"a", b"ab", b"\\n", b"<", b"[", b"x", b"y", b"z"], bos_token_id=0, **values
    )
    both = Both(file.write(tmp_path / "x.gguf"))
    both.check_facts()
    both.check("aab\nabab")
    if "unknown_token_id" in values:
        both.check("a?b")
    both.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (rb"plain", b"plain"),
        (rb"\xff\x00a\n\t\r", b"\xff\x00a\n\t\r"),
        (rb"\\x41\'\"", b"\\x41'\""),
        (rb"a\x4", b"a"),
        (b"a\\", b"a"),
        (rb"\xZZ", bytes([(42 * 16 + 42) & 255])),
    ],
)
def test_escapes(text: bytes, found: bytes) -> None:
    assert unescaped(text) == found


def test_odd_escapes_are_those_of_llama_cpp(tmp_path: Path) -> None:
    tokens = [
        b"<s>",
        rb"\xZZ",
        rb"\xAf",
        rb"a\x4",
        b"a\\",
        rb"\q",
        b"a",
        b"<",
        b"\xff",
        b"[",
        b"\\n",
    ]
    tokens += [
        bytes([first]) for first in {unescaped(each)[0] for each in tokens} - {*b"a<[\n\xffq"}
    ]
    both = Both(file_of([*tokens, b"[1]", b"[2]", b"[3]"]).write(tmp_path / "x.gguf"))
    both.check_facts()
    both.close()


def test_the_longest_token_counts() -> None:
    tokens = LongestMatch([b"a", b"ab", b"abcd", b"b", b"c"], None)
    assert tokens("abcabcdab") == [1, 4, 2, 1]
    with pytest.raises(Unsupported, match="no tokens for"):
        tokens("a?")
    assert LongestMatch([b"a", b"?"], 1)("a!") == [0, 1]


def test_vocabularies_in_which_texts_get_stuck_are_refused(tmp_path: Path) -> None:
    """llama.cpp would search for ever."""
    assert incomplete([b"a", b"ab", b""]) is None
    path = file_of([b"<s>", b"\\n\\n", b"a", b"<", b"[", b"[1]", b"[2]", b"[3]"]).write(
        tmp_path / "x.gguf"
    )
    for vocab in (GgufVocab, LlamaVocab):
        with pytest.raises(
            ModelUnavailable, match="tokens begin with b'\\\\n', which is none itself"
        ):
            vocab(path)
