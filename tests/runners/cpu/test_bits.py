"""SHA-256 sums of logits, written down: every machine must give these very bits."""

import hashlib
from pathlib import Path

import gguf
import pytest

from segue.engine.seam import Span
from segue.runners.cpu.architectures.tensor_types import MATRIX_TYPES
from segue.runners.cpu.products.processor import VARIABLE, Target, possible, this_target
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_types import write_types

TINY = {
    ("llama", "F32"): "6ef20d5e1b6eb80477ff2cbb6cc7b1905c41a914f134219f20071d029bf76e6b",
    ("llama", "F16"): "ffe45432b5123ce3c3f37befac58c5463cacba803bfd4c5bfcdc0de049814ac8",
    ("llama", "Q8_0"): "7bdb4b7e00e3b8a5ca702ec77011fb1cd3db7835d89cd829770eb83799d3a0f6",
    ("llama", "Q4_0"): "3d5af749776e3bf9129dcc112d45246c45cc47401be1292607039be0fb90b62b",
    ("llama", "Q4_1"): "d276b6a559cf53f2a19c605919be7e12befed17967c28c51759d9972d781e194",
    ("qwen2", "F32"): "85d02308b47be685260063be18fb0cee092e45df2405a27b2b217b568957b02b",
    ("qwen3", "Q8_0"): "3c7b8246548fe5207e4f515e25b8aebe46fae90e2d845f5e83f67b806fa2ff48",
}
OF_TYPES = {
    "F32": "9c066d2eb231d4f0f129ba5ae7d92ed3ed68cd365724eef05140986ca9392452",
    "F16": "5a2e753b991e3173db2dc78a134816dcf2215e68ae9e0855f2668e56c3fc97fd",
    "BF16": "ef7aa601e9f38521ef9cf0ad332dc21ad1eb2fe277bb3de2afc09d5d73f0c851",
    "Q4_0": "078cd8b7b732df5fd2973d80e8c2f58f5048615e18a2c418642fc717320e2de6",
    "Q4_1": "c97099c0d60858d8a9f559cf65767473f0f104f456e879e5c3afdf3a89c1bfd5",
    "Q5_0": "fdf6de1b50fbaeadab9dd419d458e8777500477ca66ea71a4fc5c8a722b48f10",
    "Q5_1": "2b4aa398f2c2d6a135ded6b011ffdb863740aeb5edee0aa6155fed564e6d1adf",
    "Q8_0": "88595bca81cb8735d334d3ccd645ae4344accaaf3f42e0ffb58d0519449b9d08",
    "Q2_K": "2d7e135ff1849e20a0a67a6b3894fe112323827d7acbb93fcedfa2fcd8478ddd",
    "Q3_K": "31b3334b6f9ec712de92428b608754158d04df0bbc2960069560e4c932a603eb",
    "Q4_K": "4d1f3f98d9d7bacb62dd33d1928a8b77bbf1edf37dca9a3e6186d4bdee4b065f",
    "Q5_K": "8eaff159f8536f479b0b61b8542170d5f671ad591198fb3a23d97f4cede18827",
    "Q6_K": "7b044d2671efb8368a221ffab19631ff3f7337e05ad3d4991b5e965b2cb4b297",
    "IQ4_NL": "3f4de71f68ed6851777256ac1d6413fd87e79199347d1fa85a89520551fafb4d",
    "IQ4_XS": "bfa82bb6cdd0701af9793cd0ac66ea73026e5ca7bfd3d2d769b7552cda255cec",
    "MXFP4": "30774c95c55fadb43bb5df28e3a8d1041714b8081c5a5692971f633b348c20da",
}
OF_FEW_BITS = {
    "TQ1_0": "2b62fab682e8f16035afa0b3b4f3209bac306e9ab681e7b2dddd2bd4e80bcd65",
    "TQ2_0": "2b62fab682e8f16035afa0b3b4f3209bac306e9ab681e7b2dddd2bd4e80bcd65",  # the same weights
    "NVFP4": "51f228bb84a308c077bed2172b213d6e38c4451fa828a0a3f2596187d1619108",
    "IQ2_XXS": "e0baa93b9661dcacf1d35fa05c5218a95546e889b8519d32dea23e6217140fdd",
    "IQ2_XS": "ffefa3f078603ece4a08e0b6028762f28c705f1a3c00853512bbd4c0517f071b",
    "IQ2_S": "368b0bf3685b96e43e22825dfdfb3f576eafbd74b6765350c2ee3fc13d7280a6",
    "IQ3_XXS": "9adb30bdf4f788eacf19bf4d5468f6e9c648e1af74b124458fc3c4b12d2ad95a",
    "IQ3_S": "e3f93eecc4aeb0968bd1b5eafe1e3d248509b51cd7caff776ba78c1519ec9ce2",
    "IQ1_S": "98af9aef30052377f926c186d4cea8c287e23763a38980320ba69a5691b9ae6f",
    "IQ1_M": "106814efa7834a21e9d124a0344a157480dcf4eccd83d65e4fb7e60ab78fed08",
    "Q1_0": "2472914e99f4dde20ae59f235f5d05d8f61c291260bed65825d6e77b41b68c22",
    "Q2_0": "767655c0c991b09c0b19e26237da294912d891ff7a7218277d8bca5d1d47c319",
}
OF_ALL_FEW_BITS = {
    0: "98219011c6d73caa0ab243ffbb6e3a4943218ef2061123f28d420a24ac4775b7",
    4: "0e0848f4d1c0b59c49a16eb199aed04b612533748ee6ae11f036b12cf60aaa05",
}
OF_ALL_TYPES = "642cac463f5abaa8a1312615242a46a5a8eedfb54349a19232a7f2f72c624618"
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
