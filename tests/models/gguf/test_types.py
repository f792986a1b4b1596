from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

from segue.models.gguf.types import FILE_TYPES, TENSOR_TYPES


def test_types_of_tensors_are_those_of_the_library() -> None:
    theirs = {int(kind): (kind.name, *GGML_QUANT_SIZES[kind]) for kind in GGMLQuantizationType}
    assert TENSOR_TYPES.keys() - theirs.keys() <= {42}  # which its version 0.19 does not have
    shared = {number: tuple(kind) for number, kind in TENSOR_TYPES.items() if number in theirs}
    assert theirs.items() >= shared.items()
    assert TENSOR_TYPES.keys() >= {number for number in theirs if number <= 42}


def test_types_of_files_are_those_of_the_library() -> None:
    for kind in LlamaFileType:
        if int(kind) <= 41 or kind is LlamaFileType.GUESSED:
            name = kind.name.removeprefix("MOSTLY_").removeprefix("ALL_")
            assert FILE_TYPES[int(kind)] == name
