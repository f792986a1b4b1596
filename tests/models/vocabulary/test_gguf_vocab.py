from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gguf import GGUFReader, GGUFWriter
from gguf import GGUFValueType as Kind
from hypothesis import given
from hypothesis import strategies as st

from segue.errors import Incompatible, ModelUnavailable, Unsupported
from segue.models import gguf
from segue.models.vocabulary.gguf_vocab import GgufVocab, unsupported
from segue.runners.llama.vocab import LlamaVocab
from tests.support.models.split_gguf import copy_metadata
from tests.support.models.tiny_coders import CODERS
from tests.support.models.tiny_gguf import byte_alphabet, write_tiny_gguf
from tests.support.models.vocabulary_files import (
    BYTE,
    CONTROL,
    NORMAL,
    UNUSED,
    Both,
    VocabularyFile,
)

_CHARACTERS = st.characters(exclude_categories=())  # lone surrogates too
_PARTS = st.sampled_from(
    (
        *(
            "it's",
            "don'T",
            "12345",
            " the",
            "The  quick",
            "\n\n  x",
            "\r\n",
            "   ",
            "日本語",
            "😀👩‍🚀",
        ),
        *(
            "<|im_start|>",
            "<|im_end|>",
            "<|endoftext|>",
            "<repo_name>",
            "<|im_",
            "Привет",
            "e\u0301",
        ),
    )
)
TEXTS = st.lists(st.text(_CHARACTERS, max_size=8) | _PARTS, max_size=12).map("".join)


@pytest.fixture(scope="module")
def embedded(embedded_gguf: Path) -> Iterator[Both]:
    both = Both(embedded_gguf)
    yield both
    both.close()


@pytest.mark.model
def test_the_embedded_model_has_the_same_facts(embedded: Both) -> None:
    embedded.check_facts()
    for key in ("general.name", "general.file_type", "{arch}.context_length", "{arch}.x"):
        assert embedded.ours.metadata(key) == embedded.theirs.metadata(key)


@pytest.mark.model
@given(TEXTS)
def test_the_embedded_model_has_the_same_tokens(embedded: Both, text: str) -> None:
    embedded.check(text)


@pytest.mark.model
def test_long_texts_have_the_same_tokens(embedded: Both) -> None:
    source = Path(__file__).parents[3] / "docs" / "architecture.md"
    for text in (
        source.read_text("utf-8"),
        "ab" * 10_000,
        "<|im_end|>x " * 2_000,
        "1" * 10_000,
        " " * 9_999,
    ):
        embedded.check(text)


@pytest.fixture(scope="module")
def tiny(tiny_gguf: Path) -> Iterator[Both]:
    both = Both(tiny_gguf)
    yield both
    both.close()


@given(TEXTS)
def test_a_tiny_model_has_the_same_tokens(tiny: Both, text: str) -> None:
    tiny.check(text)


@pytest.mark.parametrize("name", CODERS)
def test_models_that_fill_gaps_have_the_same_facts(tmp_path: Path, name: str) -> None:
    both = Both(CODERS[name].write(tmp_path / "x.gguf"))
    both.check_facts()
    assert both.ours.fim is not None
    for text in (
        "",
        " ",
        "a b\n",
        "<PRE> x <SUF>é▁ <MID>",
        "<|fim_prefix|>a<fim_suffix> b",
        "ab  c",
    ):
        both.check(text)
    both.close()


@pytest.mark.parametrize(
    ("name", "controls"),
    [
        ("seed-coder", ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>")),
        ("Codestral 22B", ("[PREFIX]", "[MIDDLE]", "[SUFFIX]")),
        ("Mistral Nemo", ("[PREFIX]", "[MIDDLE]", "[SUFFIX]")),
        ("Mellum", ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<filename>")),
    ],
)
def test_fim_tokens_that_only_we_know(tmp_path: Path, name: str, controls: tuple[str, ...]) -> None:
    path = write_tiny_gguf(
        tmp_path / "x.gguf", name=name, fim=False, control_tokens=controls, chat_template="{{x}}"
    )
    both = Both(path)
    both.check_facts()
    both.close()


def test_texts_may_begin_and_end_with_tokens(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "▁", "a", "▁a", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [2, CONTROL, CONTROL, *[NORMAL] * 3, *[BYTE] * 256]
    for values in (
        {},
        {"add_bos_token": False, "add_eos_token": True},
        {"add_space_prefix": False, "eos_token_id": 1, "bos_token_id": 999},
    ):
        file = VocabularyFile("llama", tokens, kinds, [0.0] * len(tokens), values=values)
        both = Both(file.write(tmp_path / "x.gguf"))
        both.check_facts()
        for text in ("", "a", " a", "</s>a<s>", "b"):
            both.check(text)
        both.close()


def test_a_character_without_tokens_is_refused(tmp_path: Path) -> None:
    file = VocabularyFile("llama", ["a", "▁", "<s>"], [NORMAL, NORMAL, CONTROL], [0.0] * 3)
    vocab = GgufVocab(file.write(tmp_path / "x.gguf"))
    assert vocab.tokenize("a", False, False) == [1, 0]
    with pytest.raises(Unsupported, match="no tokens for 'é'"):
        vocab.tokenize("aé", False, False)


def test_what_only_llama_cpp_can_read_is_refused_by_name(tmp_path: Path) -> None:
    for file, words in (
        (VocabularyFile("t5", ["a"]), "t5"),
        (VocabularyFile("gpt2", ["a"], merges=["a a"], pre="whitespace"), "whitespace"),
        (VocabularyFile("none", ["a"]), "no vocabulary"),
    ):
        path = file.write(tmp_path / "x.gguf")
        assert words in str(unsupported(gguf.header(path)))
        with pytest.raises(Incompatible, match=words):
            GgufVocab(path)


def test_vocabularies_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    nothing = VocabularyFile("gpt2", ["a", "b"], merges=["a b"])
    for file, words in (
        (VocabularyFile("gpt2", ["a", "b"]), "no tokenizer.ggml.merges"),
        (VocabularyFile("llama", ["a", "a"]), "tokens 0 and 1 are both"),
        (VocabularyFile("llama", ["a", "b"], [NORMAL]), "2 tokens, but tokenizer.ggml.token_type"),
        (VocabularyFile("gpt2", ["a"], merges=["a a"], values={"add_bos_token": True}), "adds BOS"),
        (VocabularyFile("llama", ["a"], values={"add_eos_token": True}), "adds BOS"),
        (VocabularyFile("gpt2", ["a"], merges=["a a"], values={"add_eos_token": True}), "adds EOS"),
        (VocabularyFile("llama", ["a\0b", "a"]), "tokens 0 and 1 are both b'a'"),
        (VocabularyFile("llama", ["[EMPTY_1]", ""]), "tokens 0 and 1 are both"),
    ):
        for read in (GgufVocab, LlamaVocab):  # llama.cpp would end the process over most of them
            with pytest.raises(ModelUnavailable, match=words if read is GgufVocab else str(path)):
                read(file.write(path))
    assert GgufVocab(nothing.write(path)).bos is None


@pytest.mark.parametrize(
    ("key", "value", "kind", "words"),
    [
        ("bos_token_id", -1, Kind.INT32, "bos_token_id is -1, not the number of a token"),
        ("eot_token_id", True, Kind.BOOL, "eot_token_id is True, not the number of a token"),
        ("fim_pre_token_id", "1", Kind.STRING, "fim_pre_token_id is '1', not the number"),
        ("eos_token_id", [1], Kind.ARRAY, "eos_token_id is a list, not the number"),
        ("add_bos_token", 1, Kind.UINT32, "add_bos_token is 1, not true or false"),
    ],
)
def test_words_of_another_type_are_refused_as_by_llama_cpp(
    tmp_path: Path, key: str, value: Any, kind: Kind, words: str
) -> None:
    """They were passed over."""
    tokens = [*byte_alphabet().values()]
    whole = VocabularyFile("gpt2", tokens, merges=["a b"], pre="default").write(tmp_path / "x.gguf")
    path, reader = tmp_path / "y.gguf", GGUFReader(whole)
    writer = GGUFWriter(path, "llama")
    writer.kv_data[0].clear()
    copy_metadata(reader, writer)
    writer.add_key_value(f"tokenizer.ggml.{key}", value, kind, Kind.UINT32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for read, told in ((GgufVocab, words), (LlamaVocab, "has wrong type")):
        with pytest.raises(ModelUnavailable, match=told):
            read(path)


def test_more_kinds_than_tokens(tmp_path: Path) -> None:
    """The numbers of special tokens were held against the longer list."""
    tokens = [*byte_alphabet().values()]
    values = {"bos_token_id": 256, "eos_token_id": 257}
    kinds = [NORMAL] * (len(tokens) + 9)
    file = VocabularyFile("gpt2", tokens, kinds, merges=["a b"], pre="default", values=values)
    both = Both(file.write(tmp_path / "x.gguf"))
    both.check_facts()
    assert both.ours.end_tokens <= {*range(len(tokens))}
    both.close()


def test_pieces_of_unused_and_odd_tokens(tmp_path: Path) -> None:
    tokens: list[str | bytes] = [
        "a",
        "Ġx",
        "日",
        b"\xff\xc3",
        "<0x41>",
        "<0xZZ>",
        "unused",
        "<|x|>",
        "x\0y",
        "",
        "</s>",
    ]
    kinds = [NORMAL, NORMAL, NORMAL, NORMAL, BYTE, BYTE, UNUSED, CONTROL, NORMAL, NORMAL, NORMAL]
    for model in ("gpt2", "llama"):
        file = VocabularyFile(model, tokens, kinds, [0.0] * len(tokens), merges=["a a"])
        both = Both(file.write(tmp_path / f"{model}.gguf"))
        both.check_facts()
        both.close()
