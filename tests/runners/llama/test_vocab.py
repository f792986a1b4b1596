import os
import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.engine.seam import Capabilities, FimTokens
from segue.engine.tokens import texts
from segue.errors import Incompatible, ModelUnavailable, Unsupported
from segue.runners.llama.vocab import LlamaVocab, model_info
from tests.support.models import tiny_gguf as tiny
from tests.support.models.tiny_coders import CODERS
from tests.support.models.tiny_gguf import write_tiny_gguf

NUM_ORDINARY = len(tiny.pieces())
CONTROLS = [tiny.END, *tiny.FIM.values()]


@pytest.fixture(scope="module")
def vocab(tiny_gguf: Path) -> Iterator[LlamaVocab]:
    vocab = LlamaVocab(tiny_gguf)
    yield vocab
    vocab.close()


def spell(vocab: LlamaVocab, tokens: list[int]) -> bytes:
    return b"".join(map(vocab.piece, tokens))


@given(st.text() | st.text(alphabet="the and😀é 👩‍🚀\n"), st.booleans())
def test_pieces_spell_the_text(vocab: LlamaVocab, text: str, parse_special: bool) -> None:
    tokens = vocab.tokenize(text, add_special=True, parse_special=parse_special)
    assert spell(vocab, tokens) == text.encode()


def test_every_token_has_its_bytes(vocab: LlamaVocab) -> None:
    expected = tiny.pieces() + [text.encode() for text in CONTROLS]
    assert [vocab.piece(token) for token in range(vocab.size)] == expected
    assert [vocab.is_control(token) for token in range(vocab.size)] == [
        token >= NUM_ORDINARY for token in range(vocab.size)
    ]


def test_the_unknown_token_is_no_text(tmp_path: Path) -> None:
    """As in llama.cpp's answers, and as vLLM skips it: a model that draws it does not write "<unk>"."""
    vocab = LlamaVocab(CODERS["CodeLlama"].write(tmp_path / "x.gguf"))
    assert vocab.piece(0) == b"<unk>"
    assert [token for token in range(5) if vocab.is_control(token)] == [0, 1, 2]
    assert texts(vocab)[0] == b""


def test_merges_make_long_tokens_and_half_characters(vocab: LlamaVocab) -> None:
    tokens = vocab.tokenize(" the é 😀", add_special=False, parse_special=False)
    assert [vocab.piece(token) for token in tokens] == [
        *(b" the", b" ", b"\xc3\xa9", b" \xf0\x9f", b"\x98", b"\x80")
    ]


def test_special_text_becomes_a_token_only_when_asked(vocab: LlamaVocab) -> None:
    text = f"a{tiny.END}b"
    parsed = vocab.tokenize(text, add_special=False, parse_special=True)
    plain = vocab.tokenize(text, add_special=False, parse_special=False)
    assert parsed == [ord("a"), NUM_ORDINARY, ord("b")]
    assert NUM_ORDINARY not in plain
    assert spell(vocab, plain) == text.encode()


def test_lone_surrogate_does_not_crash(vocab: LlamaVocab) -> None:
    assert spell(vocab, vocab.tokenize("a\ud800", False, False)) == b"a?"


def test_bos_is_added_where_the_model_says_so(vocab: LlamaVocab, tmp_path: Path) -> None:
    assert not vocab.adds_bos
    assert vocab.tokenize("a", add_special=True, parse_special=False) == [ord("a")]
    other = LlamaVocab(write_tiny_gguf(tmp_path / "bos.gguf", add_bos=True))
    assert other.adds_bos
    assert other.tokenize("a", add_special=True, parse_special=False) == [other.bos, ord("a")]
    assert other.tokenize("a", add_special=False, parse_special=False) == [ord("a")]


def test_fim_and_end_tokens_of_the_metadata(vocab: LlamaVocab) -> None:
    first = NUM_ORDINARY + 1
    assert vocab.fim == FimTokens(*range(first, first + 6))
    assert vocab.bos == vocab.eos == NUM_ORDINARY
    assert vocab.end_tokens == {NUM_ORDINARY, first + 3, first + 4, first + 5}


@pytest.mark.parametrize(
    ("name", "controls", "roles"),
    [
        (
            "starcoder2",
            ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"),
            ("prefix", "suffix", "middle", "repo", "file_sep"),
        ),
        (
            "seed-coder",
            ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
            ("prefix", "suffix", "middle"),
        ),
        ("Codestral 22B", ("[PREFIX]", "[MIDDLE]", "[SUFFIX]"), ("prefix", None, "suffix")),
        ("Mistral Nemo", ("[PREFIX]", "[MIDDLE]", "[SUFFIX]"), ()),
        ("half", ("<fim_prefix>",), ()),
    ],
)
def test_fim_tokens_found_by_spelling(
    tmp_path: Path, name: str, controls: tuple[str, ...], roles: tuple[str | None, ...]
) -> None:
    path = write_tiny_gguf(tmp_path / "x.gguf", name=name, fim=False, control_tokens=controls)
    vocab = LlamaVocab(path)
    ids = {role: NUM_ORDINARY + 1 + i for i, role in enumerate(roles) if role}
    if not ids:
        assert vocab.fim is None
        return
    assert vocab.fim == FimTokens(
        ids["prefix"],
        ids["suffix"],
        ids.get("middle"),
        repo=ids.get("repo"),
        file_sep=ids.get("file_sep"),
    )
    separators = {ids[role] for role in ("repo", "file_sep") if role in ids}
    assert vocab.end_tokens == {NUM_ORDINARY} | separators


def test_file_without_vocabulary_is_refused(tmp_path: Path) -> None:
    """llama.cpp would load it and abort at the first text."""
    path = write_tiny_gguf(tmp_path / "x.gguf", tokenizer="none")
    with pytest.raises(Incompatible, match="no vocabulary"):
        LlamaVocab(path)


def test_a_token_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """llama.cpp would abort."""
    path = write_tiny_gguf(tmp_path / "x.gguf", control_tokens=("<|x|>", "<|x|>"))
    with pytest.raises(ModelUnavailable, match="tokens 278 and 279 are both"):
        LlamaVocab(path)


def test_a_text_that_has_no_tokens_is_refused(tmp_path: Path) -> None:
    """llama.cpp would give -1 for what this vocabulary does not know, or abort."""
    for kind in ("rwkv", "llama"):
        vocab = LlamaVocab(_of_kind(tmp_path / f"{kind}.gguf", kind))
        assert spell(vocab, vocab.tokenize("a", False, False)).strip() == b"a"
        with pytest.raises(Unsupported, match="no tokens for"):
            vocab.tokenize("é", False, False)


def _of_kind(path: Path, kind: str) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(kind)
    writer.add_token_list(["a", "b", "\u2581" if kind == "llama" else "c"])
    writer.add_token_scores([0.0] * 3)
    writer.add_token_types([gguf.TokenType.NORMAL] * 3)
    writer.add_context_length(8)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("key", "value"), [("general.file_type", "Q8_0"), ("llama.context_length", 16.5)]
)
def test_numbers_that_are_none_are_not_told(tmp_path: Path, key: str, value: str | float) -> None:
    vocab = LlamaVocab(write_tiny_gguf(tmp_path / "x.gguf"))
    known, metadata = {key: str(value)}, vocab.metadata
    vocab.metadata = lambda key: known.get(key.replace("{arch}", "llama")) or metadata(key)  # type: ignore[method-assign]
    limits = Capabilities(num_slots=1, num_cells=8, context_length=8, max_rows=8, vocab_size=8)
    info = model_info("tiny", "llama", vocab, limits)
    assert info.quantization in ("unknown", "GUESSED", "F32")
    assert info.train_context in (0, 512)


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such names")
def test_a_file_whose_name_is_not_utf_8_is_loaded_and_told_in_utf_8(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.gguf")
    vocab = LlamaVocab(str(write_tiny_gguf(tmp_path / "x.gguf").rename(path)))
    assert vocab.file == "caf\ufffd.gguf"
    vocab.close()


def test_model_info_comes_from_the_file(tmp_path: Path) -> None:
    path = write_tiny_gguf(
        tmp_path / "x.gguf",
        architecture="qwen2",
        tensor_type=gguf.GGMLQuantizationType.Q8_0,
        context_length=256,
        chat_template="{{ messages }}",
    )
    vocab = LlamaVocab(path)
    capabilities = Capabilities(
        num_slots=4, num_cells=512, context_length=128, max_rows=32, vocab_size=vocab.size
    )
    info = model_info("tiny", "llama", vocab, capabilities)
    assert (info.architecture, info.quantization, info.runner) == ("qwen2", "Q8_0", "llama")
    assert (info.context_length, info.train_context, info.kv_tokens) == (128, 256, 512)
    assert (info.chat_template, info.eos_token) == ("{{ messages }}", tiny.END)
    assert (info.has_fim, info.deterministic) == (True, False)
    tensors = gguf.GGUFReader(path).tensors
    assert info.num_params == sum(int(tensor.n_elements) for tensor in tensors)
    assert info.size_bytes == sum(int(tensor.n_bytes) for tensor in tensors)
