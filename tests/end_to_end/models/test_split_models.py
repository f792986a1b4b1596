"""`segue serve` on a model in several files: the CPU runner's answers, the same as of the one file that it was."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.split_gguf import split_gguf
from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import write_tiny_lora
from tests.support.serving import serving
from tests.support.waiting import LOADING_S

SAMPLED = {"prompt": "the end and then", "max_tokens": 24, "temperature": 1.0, "seed": 7}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The parts, then the one file, then an adapter of matrices that are in later parts."""
    folder = tmp_path_factory.mktemp("split")
    whole = write_tiny_gguf(folder / "whole.gguf")
    adapter = write_tiny_lora(folder / "lora.gguf", whole, size=0.6)
    return [*split_gguf(whole, folder, [0, 10, 11], stem="parts"), whole, adapter]


@pytest.fixture(scope="module")
def client(files: list[Path]) -> Iterator[httpx2.Client]:
    *parts, whole, adapter = files
    models = [f"parts={parts[0]}", f"whole={whole}", "--lora", f"sql={adapter}"]
    with (
        serving(*models, "--runner", "cpu", "--num-slots", "8", "--threads", "1") as served,
        httpx2.Client(base_url=served.url, timeout=LOADING_S) as client,
    ):
        yield client


def answer(client: httpx2.Client, model: str) -> dict[str, Any]:
    answer = client.post("/v1/completions", json=SAMPLED | {"model": model, "logprobs": 5})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_answers_are_those_of_the_one_file(client: httpx2.Client) -> None:
    parts, whole = answer(client, "parts"), answer(client, "whole")
    assert parts["choices"] == whole["choices"]
    assert parts["system_fingerprint"].startswith("fp_")
    assert "varies" not in parts["system_fingerprint"]
    assert parts["system_fingerprint"] != whole["system_fingerprint"]


def test_an_adapter_for_its_later_files_is_applied(client: httpx2.Client) -> None:
    assert answer(client, "sql")["choices"] != answer(client, "parts")["choices"]


def test_pages_count_all_files(client: httpx2.Client, files: list[Path]) -> None:
    for name in ("parts", "whole"):
        answer(client, name)
    sizes = {each["name"]: each["size"] for each in client.get("/api/tags").json()["models"]}
    *parts, whole, _ = files
    expected = {
        "parts": sum(path.stat().st_size for path in parts),
        "whole": whole.stat().st_size,
    }
    found = {name.partition(":")[0]: size for name, size in sizes.items()}
    assert expected.items() <= found.items()
    shown = [client.post("/api/show", json={"model": name}).json()["details"] for name in expected]
    assert shown[0]["parameter_size"] == shown[1]["parameter_size"]
