"""`segue serve --lora`: adapters by name, by list and by what the server applies, over HTTP and on both runners."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.models.tiny_gguf import write_tiny_gguf
from tests.support.models.tiny_lora import merged, write_tiny_lora
from tests.support.serving import serving
from tests.support.waiting import PATIENCE_S

GREEDY = {"max_tokens": 12, "temperature": 0, "prompt": "the end and then"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    base = write_tiny_gguf(folder / "base.gguf")
    one = write_tiny_lora(folder / "one.gguf", base, size=0.6)
    write_tiny_lora(folder / "two.gguf", base, size=0.6, seed=1, rank=3)
    merged(folder / "merged.gguf", base, (one, 0.5))
    return folder


@pytest.fixture(scope="module", params=["cpu", "llama"])
def client(folder: Path, request: pytest.FixtureRequest) -> Iterator[httpx2.Client]:
    lora = ["--lora", f"sql={folder / 'one.gguf'}@0.5", "--lora", f"chat={folder / 'two.gguf'}"]
    # One thread: those of llama.cpp spin while they wait, beside other tests.
    runner = ["--runner", request.param, "--num-slots", "8", "--threads", "1"]
    models = [str(folder / name) for name in ("base.gguf", "merged.gguf")]
    with (
        serving(*models, *lora, *runner) as served,
        httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client,
    ):
        yield client


def text(client: httpx2.Client, **fields: Any) -> str:
    answer = client.post("/v1/completions", json=GREEDY | fields)
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["choices"][0]["text"]
    return found


def test_a_name_is_a_model(client: httpx2.Client) -> None:
    base, sql, chat = (text(client, model=name) for name in ("base", "sql", "chat"))
    assert len({base, sql, chat}) == 3
    assert sql == text(client, model="merged")
    answer = client.post("/v1/completions", json=GREEDY | {"model": "sql"}).json()
    assert answer["model"] == "sql"
    listed = client.get("/vllm/v1/models").json()["data"]
    assert {"sql": "base", "chat": "base", "base": None}.items() <= {
        each["id"]: each["parent"] for each in listed
    }.items()


def test_a_list_is_the_same(client: httpx2.Client) -> None:
    sql = text(client, model="sql")
    assert text(client, model="base", lora=[{"id": 0, "scale": 0.5}]) == sql
    assert text(client, model="base", lora=[]) == text(client, model="base")
    assert text(client, model="base", adapter="sql") == sql
    native = client.post(
        "/completion",
        json={"prompt": GREEDY["prompt"], "n_predict": 12, "temperature": 0, "model": "base"}
        | {"lora": [{"id": 0, "scale": 0.5}]},
    )
    assert native.json()["content"] == sql


def test_what_the_server_applies(client: httpx2.Client) -> None:
    plain = text(client, model="base")
    answer = client.post("/lora-adapters", json=[{"id": 0, "scale": 0.5}])
    assert answer.json() == {"success": True}
    assert [each["scale"] for each in client.get("/lora-adapters").json()] == [0.5, 0.0]
    assert text(client, model="base") == text(client, model="sql")
    assert text(client, model="chat") != text(client, model="sql")
    assert client.post("/lora-adapters", json=[]).status_code == 200
    assert text(client, model="base") == plain


def test_settings_tell_adapters_by_their_numbers(client: httpx2.Client) -> None:
    """They were told by name, where llama.cpp's clients read a number."""
    body = {"prompt": "x", "n_predict": 1, "lora": [{"id": 1, "scale": 0.5}]}
    answer = client.post("/completion", json=body).json()
    assert answer["generation_settings"]["lora"] == [{"id": 1, "scale": 0.5}]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"lora": [{"id": 2, "scale": 1}]}, 400, "ids are 0 to 1"),
        ({"lora": [{"id": 0, "scale": "x"}]}, 400, "lora[0].scale"),
        ({"lora": {"id": 0}}, 400, "lora must be a list"),
        ({"adapter": "sqll"}, 400, "served: sql, chat"),
        ({"adapter": "sql", "lora": []}, 400, "together"),
        ({"model": "sql", "lora": [{"id": 1, "scale": 1}]}, 400, "is an adapter"),
        ({"model": "sqll"}, 404, "served: base"),
    ],
)
def test_what_is_refused(
    client: httpx2.Client, fields: dict[str, Any], status: int, words: str
) -> None:
    answer = client.post("/v1/completions", json=GREEDY | {"model": "base"} | fields)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_an_adapter_has_its_own_fingerprint(folder: Path, client: httpx2.Client) -> None:
    def shown(**fields: Any) -> str:
        body = GREEDY | {"model": "base"} | fields
        found: str = client.post("/v1/completions", json=body).json()["system_fingerprint"]
        return found

    if "varies" in shown():
        pytest.skip("no promise on this runner")
    scales = [[], [{"id": 0, "scale": 1}], [{"id": 0, "scale": 0.5}], [{"id": 1, "scale": 1}]]
    found = [shown(lora=lora) for lora in scales]
    assert len(set(found)) == len(scales)
    assert found[2] == shown(model="sql")
    assert found[0] == shown()
