"""How adapters are written on the command line, and which do not go with a model."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue.errors import Incompatible, ModelUnavailable
from segue.models import adapter_files
from segue.models.adapter_files import AdapterRef, parse, parse_all
from segue.models.gguf import header
from segue.runners.cpu.loader import obstacle
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import write_tiny_lora


def nothing(path: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("a/my lora.gguf", AdapterRef("a/my lora.gguf", "my-lora", scale=1.0, is_named=False)),
        ("sql=a/b.gguf", AdapterRef("a/b.gguf", "sql", is_named=True, scale=1.0)),
        ("sql=b.gguf@-0.5", AdapterRef("b.gguf", "sql", -0.5, True)),
        ("b.gguf@2", AdapterRef("b.gguf", "b", 2.0, is_named=False)),
        ("./a=b.gguf", AdapterRef("./a=b.gguf", "a-b", scale=1.0, is_named=False)),
    ],
)
def test_forms(text: str, ref: AdapterRef) -> None:
    assert parse(text, nothing) == ref


def test_a_file_of_that_very_name_is_meant() -> None:
    assert parse("a=b@2.gguf", lambda path: True).path == "a=b@2.gguf"


@pytest.mark.parametrize(
    "text", ["", "a=", "x.gguf@much", "x.gguf@nan", "x.gguf@1e9", "<b>=x.gguf"]
)
def test_no_forms(text: str) -> None:
    with pytest.raises(ModelUnavailable, match="--lora"):
        parse(text, nothing)


def test_no_two_of_one_name() -> None:
    with pytest.raises(ModelUnavailable, match="'base' is taken"):
        parse_all(["base=x.gguf"], ["base"], nothing)
    with pytest.raises(ModelUnavailable, match="'x' is taken"):
        parse_all(["x.gguf", "y/x.gguf"], [], nothing)


# --- against a base ---

Q = "blk.0.attn_q.weight"


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tensors: {key: value for key, value in tensors.items() if key != name}


def renamed(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tensors: {key.replace(old, new): value for key, value in tensors.items()}


def reshaped(name: str, *shape: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tensors: tensors | {name: np.zeros(shape, np.float32)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"architecture": "qwen2"}, "it is for qwen2, and the model is llama"),
        ({"general_type": "model"}, "its type is 'model'"),
        ({"adapter_type": "ia3"}, "not 'adapter' and 'lora'"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": -1e30}, "alpha is -1"),
        ({"change": without(f"{Q}.lora_b")}, "has no blk.0.attn_q.weight.lora_b"),
        ({"change": without(f"{Q}.lora_a")}, "has no blk.0.attn_q.weight.lora_a"),
        ({"change": renamed(".lora_a", ".extra")}, "neither"),
        ({"change": renamed("blk.1.", "blk.9.")}, "no tensor blk.9.*for another base"),
        ({"change": reshaped(f"{Q}.lora_b", 128, 5)}, "rank 4, the other 5"),
        ({"change": reshaped(f"{Q}.lora_a", 4, 96)}, "for another base"),
        ({"change": reshaped(f"{Q}.lora_b", 96, 4)}, "for another base"),
        ({"change": reshaped(f"{Q}.lora_a", 4)}, "no matrix"),
        ({"change": lambda _: {}}, "no tensors"),
    ],
)
def test_refused_with_the_reason(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    base = write_tiny_gguf(tmp_path / "base.gguf")
    lora = write_tiny_lora(tmp_path / "lora.gguf", base, **options)
    with pytest.raises(Incompatible, match=words):
        adapter_files.check(str(lora), header(base))


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    """llama.cpp ended the process at the first text."""
    base = write_tiny_gguf(tmp_path / "base.gguf")
    lora = write_tiny_lora(tmp_path / "lora.gguf", base, names=[Q])
    data, name = lora.read_bytes(), f"{Q}.lora_b".encode()
    kind = data.index(name) + len(name) + 4 + 2 * 8
    lora.write_bytes(data[:kind] + struct.pack("<I", 26) + data[kind + 4 :])
    with pytest.raises(Incompatible, match=r"attn_q\.weight\.lora_b is of type I32, which weights"):
        adapter_files.check(str(lora), header(base))


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    base = write_tiny_gguf(tmp_path / "base.gguf")
    lora = write_tiny_lora(tmp_path / "lora.gguf", base)
    whole = lora.read_bytes()
    for length in (0, 10, 200, len(whole) // 2, len(whole) - 100):
        lora.write_bytes(whole[:length])
        with pytest.raises(ModelUnavailable):
            adapter_files.check(str(lora), header(base))


def test_the_models_own_file_is_no_adapter(tmp_path: Path) -> None:
    base = write_tiny_gguf(tmp_path / "base.gguf")
    with pytest.raises(Incompatible, match="its type"):
        adapter_files.check(str(base), header(base))


def test_embeddings_are_left_to_llama_cpp(tmp_path: Path) -> None:
    base = write_tiny_gguf(tmp_path / "base.gguf")
    columns, tokens = next(t.shape for t in header(base).tensors if t.name == "token_embd.weight")

    def embeddings(_: dict[str, Any]) -> dict[str, Any]:
        a, b = np.zeros((tokens, 4), np.float32), np.zeros((columns, 4), np.float32)
        return {"token_embd.weight.lora_a": a, "token_embd.weight.lora_b": b}

    lora = write_tiny_lora(tmp_path / "lora.gguf", base, change=embeddings)
    adapter_files.check(str(lora), header(base))
    assert "embeddings" in (obstacle(base, [str(lora)]) or "")
