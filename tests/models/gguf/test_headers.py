"""What a header says where the file says little, or nonsense."""

import pytest

from segue.models.gguf.headers import GgufHeader, Tensor, Value

TENSORS = (
    Tensor("a", (256, 2), "Q4_K", 0, 288),
    Tensor("b", (64,), "F32", 288, 256),
    Tensor("c", (16,), "F32", 544, 64),
)


def header(tensors: tuple[Tensor, ...] = TENSORS, **metadata: Value) -> GgufHeader:
    keys = {f"llama.{name}": value for name, value in metadata.items()}
    return GgufHeader("llama", keys, {}, tensors, 608)


@pytest.mark.parametrize(
    ("value", "count"), [(5, 5), (1, 1), (0, 0), (-1, 0), (1.5, 0), ("5", 0), (None, 0)]
)
def test_a_count_is_a_whole_number_above_zero(value: Value | None, count: int) -> None:
    said = header() if value is None else header(context_length=value)
    assert said.train_context == count


def test_the_vocabulary_is_as_large_as_its_list_or_as_the_file_says() -> None:
    assert (header().n_vocab, header(vocab_size=7).n_vocab) == (0, 7)
    listed = GgufHeader("llama", {"llama.vocab_size": 7}, {"tokenizer.ggml.tokens": 3}, (), 0)
    assert listed.n_vocab == 3


@pytest.mark.parametrize(
    ("file_type", "named"),
    [(15, "Q4_K_M"), (0, "F32"), (9999, "F32"), ("15", "F32"), (None, "F32")],
)
def test_the_quantization_is_the_files_own_name_or_that_of_most_bytes(
    file_type: Value | None, named: str
) -> None:
    """Of the tensors' bytes 320 are F32, and 288 Q4_K."""
    said: dict[str, Value] = {} if file_type is None else {"general.file_type": file_type}
    assert GgufHeader("llama", said, {}, TENSORS, 608).quantization == named
    assert header(()).quantization == "unknown"


def test_parameters_are_those_of_all_tensors() -> None:
    assert header().num_params == 512 + 64 + 16
