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
    ("llama", "F32"): "2b371c5cf3b2dde6d5278b3d3e3d56528c6685b56887be51ed5ca6e53ddf7821",
    ("llama", "F16"): "e03232bba1ea435199dcad6ed1a87d7ee1a3e46d149953cb54e04436a0439e63",
    ("llama", "Q8_0"): "13589ee08ec979f946288dd303ee34ff0a3f125f374368d271e995f94ed60dc8",
    ("llama", "Q4_0"): "d2292d20db2df5738b1511079a1cb7f1761d41f67f9bb94b8a843c8a99f4004a",
    ("llama", "Q4_1"): "1dafb104d7845422b3a35f239dc155ccc4232b8c937bc3696cc27b3a2e77c1a5",
    ("qwen2", "F32"): "150598a43ce9b7678bace6d6535d9420bd1894d90aa8797ce3e6b93956557c7f",
    ("qwen3", "Q8_0"): "7c87e79761a3a99987c6656a2150761788548d06ed87709c752a99d3e5e607db",
}
OF_TYPES = {
    "F32": "28a4133291efa0c86c5818b54c734c30597b450877c44df1ee8f8dad16bffa69",
    "F16": "07e67eefebeb4eb1ac327904881e1c5e6e35a63189c852a2ca5492b3d875da2e",
    "BF16": "5268b5d3e73387ad821f31660c3e73c36fc2a40880401399099888e01a09c527",
    "Q4_0": "c15278579c1446e8b3aa51b6985c07ea4ea461731c9017983a48fa5826fc4592",
    "Q4_1": "2e541fa9cb6eb750b1ae1543ef0ee8321fed0c34cad17d8285ffa61cace148f7",
    "Q5_0": "3edd5ba0e4567eaa1a3cc179ec40c3108bdb3ccff1308acf30739d526c2267de",
    "Q5_1": "e80f0235c2249d417557fd6c4646d20c2a93df733f8ef6cd02a848ec47124941",
    "Q8_0": "d0a526e0427eb7a0ed63ad38b94dd6e638cf056f7ab0d155d94e1f54d9e75ef3",
    "Q2_K": "083e85179006aad731d324f3924d8bddafca40d606b45b4bdb119ed975167d43",
    "Q3_K": "c60eae07fdcf8f4c1645068b8d9fbf4f7f80e0081a91310257474f7eba58894e",
    "Q4_K": "703d37431b4bf44ccb97f88d65eb5b2125b24e002ccbb642991cdf1b182f82c2",
    "Q5_K": "222bf9d08c4c97088790c7183f957446e494aff5b98ef1816173dcbe79297fcc",
    "Q6_K": "e27dec9fb06957e9ccf02b6e09cdbf660584b7ae7f77d672aeafb0e71ddcdf06",
    "IQ4_NL": "7b1ae85e01fc4866280fc201e0ef25569e13ee45d4f9524e10f587a97cdcb16e",
    "IQ4_XS": "f82bc3565eb079719ab537c276459b82b5c98b3f689adeeaa302adb7bd866bc3",
    "MXFP4": "fb97a58ef55915aa159e7ae34cf437b5d0172bda796731db1a82048a629aa56f",
}
OF_FEW_BITS = {
    "TQ1_0": "c6efd26329903c7d9e5d20d6b29f08f7a3465a4740d5c2184003cb2e43bd7b8a",
    "TQ2_0": "c6efd26329903c7d9e5d20d6b29f08f7a3465a4740d5c2184003cb2e43bd7b8a",  # the same weights
    "NVFP4": "e8e5cff44a34c7b15a32f7bb2d10d5f4eee746784ca8f20b856025b55b75decf",
    "IQ2_XXS": "8f09e789b98857b53e886b2bd357d70121430689d2d25ca14b2e4d9b6e59c1df",
    "IQ2_XS": "21f0f4ee74af8fffd19a39bf4cf6a0f7a63445cf9b749476a2a3d8013b1cdb1e",
    "IQ2_S": "26d06f5e3b48e3bf582914a7d5f28b16d03b00521d30456ee62e681a105eb36b",
    "IQ3_XXS": "686872e5cea6810d36a1332ee07d9c6d3ae98d81c6d48f50d0d116d212c68b97",
    "IQ3_S": "e0a6924f30b379adf6bc269a2585e74ff69b59099e8103c30a75c5ae42f9d881",
    "IQ1_S": "94442498f7b1c5b500c9144bdc4c1aed6211205f58136a7e8182d1316602f19e",
    "IQ1_M": "fc5ec952335a0155234ce15a6dc7e1aaf31995a2b218e0b2a1c6a0cc91e28391",
}
OF_ALL_FEW_BITS = {
    0: "70811f5de3c989bd098ba419693663eceb5ab618595b3b2703949aa428644ed1",
    4: "72eb5bf3f0462907616d28857f608526bb0105991a565ddffb525c28954274ef",
}
OF_ALL_TYPES = "1c38ca49cd8133b406c3b056d99f63ab3cd3f9a021814cedc2b1ec29b2f1abe1"
EMBEDDED = "d81ab595d213165d2e03093a3d2797720389ac1302fa2e3d188e7b7e8656f008"
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
