"""SHA-256 sums of logits, written down: every machine must give these very bits."""

import hashlib
from pathlib import Path

import gguf
import pytest

from segue.engine.seam import Span
from segue.runners.cpu.anatomy.support import MATRIX_TYPES
from segue.runners.cpu.products.processor import VARIABLE, Target, possible, this_target
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_types import write_types

TINY = {
    ("llama", "F32"): "77bd0d888b7cef237e47ff6402d02aadbec2d68149e5f82a494dc1a823761e08",
    ("llama", "F16"): "c5d1d33dc7a2636226e40e46f4a817c8a2abc352632bb96eb01dad2e58755403",
    ("llama", "Q8_0"): "f9800e377cb68a9227ef259a6bab2b7cd358e01294c644921eb243ef3caad7b7",
    ("llama", "Q4_0"): "366fe11d770e62457b63db229335f8f64b836977a42c8326f939515408ee01fd",
    ("llama", "Q4_1"): "084df64041512cc75ca65d9827af33b3151b7bc029958fe10182c789f89afaa7",
    ("qwen2", "F32"): "186f235ba192322853decc2d9463544c623bcc61fb03998772f3cf022b3450c9",
    ("qwen3", "Q8_0"): "efda003a99bcd291f50b631aa6df5c599b76e4e1d2b300f4ddd53006f4a2b199",
}
OF_TYPES = {
    "F32": "b56e06d5a046353fc813a30028dcdfcb9664deb633cdf8b180cddca26f02ae24",
    "F16": "8a146e6be12bb8d251288e38fdb5079fedd93c3a253e58305552bfecbfc4bd67",
    "BF16": "eef5ca80b8e4fcbff5f75f096d3793bfd448bc7d2ad279af720fe35fd7899812",
    "Q4_0": "9d64223a76d690542b4656c3023afe9e13031a15819115c5d337ce687af010c3",
    "Q4_1": "e4a8efdcf81e6523fea137fdc676bd630f6a0f23fd8d35da395ee0a4c49623a7",
    "Q5_0": "898356c197c8ab0f29bd8e4972212e911a8f86c76d0065270dd47229172a6e9c",
    "Q5_1": "72157905ca8adcf14e3626a39af3840d4ef096838a62cf285dc755c9631876e7",
    "Q8_0": "90d51a82fa0ff5f174c6627eac8980f07aa85d150e7ac53200fefd9e6c7d96ce",
    "Q2_K": "6473d897eb89cde7166e76acba419a2a38cbde3959d7d3d89ba5ba94c4a787c8",
    "Q3_K": "cc0ff6bf958baf241a1f45435825ee214351770922533cff46444817187f008a",
    "Q4_K": "c5dfe92a43003a9a36b3152ba6459b2480d8b218f41b2b380e4a347e7bb753e6",
    "Q5_K": "6af8f885e5b53985e3b692f3175f5785d547b600c2ef27904750b069efcaf547",
    "Q6_K": "c0074c50a948fef88cd56fed5a1726368bc3b62294c23edb93c7eaa4699a4609",
    "IQ4_NL": "af1bf21490b8fb62f034ce7124d3d60f44ea630f55a8e201d86245ed8e98d765",
    "IQ4_XS": "5d5ae7d433fd49677b04dee44240a04c07797f4228d424c61e0d61ef7beef17e",
    "MXFP4": "305d37197c3bd0821ef2926394a3f2833cf31057771ebdabf0ca4682e9a879de",
}
OF_FEW_BITS = {
    "TQ1_0": "a3e18a7c7508e3c976ca53653ef9ea7a3a780f01cacba83aaf35dec4c423f821",
    "TQ2_0": "a3e18a7c7508e3c976ca53653ef9ea7a3a780f01cacba83aaf35dec4c423f821",  # the same weights
    "NVFP4": "d638786fcde817410aec283a27ed11abc454e9be639f95f32a8f10e95c542ca7",
    "IQ2_XXS": "e78252258f4eabe8782c84fcdc8ecddbc8a2b98806446f97139a25b9ac7488a7",
    "IQ2_XS": "c6e6d026c10ce2916a9af003a088d9671c177da1d470434c63e2bda8afd4ba53",
    "IQ2_S": "3989c8352259477fed3cf42131825aa413707ed7744594fd575d9dc3d2a22c0b",
    "IQ3_XXS": "1bd8c7d9a5bed13075aef384f702f8a2e193b0b55e0368846f923cca1be0a9cb",
    "IQ3_S": "21884ba7a9c98d9651b38165bdd9e86263f39f26fab083f4cca358107757b37b",
    "IQ1_S": "b3bbdfd0e516fc6f4348100112ab7f3f3a43034f0cfa512a35a1fe60790ac676",
    "IQ1_M": "fb7f67a965b0ef0971b71a4e0c021a3128d852c838c37864c64a6573ba693458",
}
OF_ALL_FEW_BITS = {
    0: "86626e000a333716f157976e79df8d3e3477735a36e8462b2f9909d8e20cfbf2",
    4: "53fb13713d4656d8fdc0f6e787daa7aba257f2cc83935d661415bb931233096e",
}
OF_ALL_TYPES = "268cbdbba82b600c282c03cc5f05e2278158ed92fda726e647998ff16ebeee2b"
EMBEDDED = "b2d9b97741a3df06dbb54d60dc9bdae49b134eeeb9c528394e5f5c38f8533a6c"
TOKENS = [(7 * i * i + 3) % 256 for i in range(300)]


def digest(path: Path, tokens: list[int], target: Target | None = None) -> str:
    runner = load(path, target=target, kv_bytes=64 << 20)
    half = len(tokens) // 2
    found = hashlib.sha256()
    for start, chunk in ((0, tokens[:half]), (half, tokens[half:])):
        found.update(runner.decode([Span(0, chunk, start, len(chunk))]).tobytes())
    runner.close()
    return found.hexdigest()


@pytest.mark.parametrize(("architecture", "kind"), TINY)
def test_of_the_tiny_models(tmp_path: Path, architecture: str, kind: str) -> None:
    path = write_tiny_gguf(
        tmp_path / "x", architecture=architecture, tensor_type=gguf.GGMLQuantizationType[kind]
    )
    assert digest(path, TOKENS) == TINY[architecture, kind]


@pytest.mark.parametrize("kind", [*OF_TYPES, *OF_FEW_BITS])
def test_of_every_type(tmp_path: Path, kind: str) -> None:
    known = OF_TYPES | OF_FEW_BITS
    assert digest(write_types(tmp_path / "x", [kind]), TOKENS) == known[kind]


def test_every_type_has_its_sum() -> None:
    assert {*OF_TYPES, *OF_FEW_BITS} == {*MATRIX_TYPES}


def test_of_a_file_with_all_types_on_every_flavour(tmp_path: Path) -> None:
    path = write_types(tmp_path / "x", [*OF_TYPES])
    for flavour in possible():
        target = this_target({VARIABLE: flavour.name})
        assert digest(path, TOKENS, target) == OF_ALL_TYPES, flavour.name


@pytest.mark.parametrize("experts", OF_ALL_FEW_BITS)
def test_of_a_file_with_types_of_few_bits_on_every_flavour(tmp_path: Path, experts: int) -> None:
    path = write_types(tmp_path / "x", [*OF_FEW_BITS], experts)
    for flavour in possible():
        target = this_target({VARIABLE: flavour.name})
        assert digest(path, TOKENS, target) == OF_ALL_FEW_BITS[experts], flavour.name


@pytest.mark.model
def test_of_the_embedded_model(embedded_gguf: Path) -> None:
    assert digest(embedded_gguf, [(1009 * i) % 49152 for i in range(1, 65)]) == EMBEDDED
