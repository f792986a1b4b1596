"""An answer calls its model by the name the request used."""

from collections.abc import Iterator
from typing import Any

import pytest

from segue.engine.process.fleet import Fleet, Member
from segue.engine.process.supervisor import Supervisor
from segue.engine.seam import Engine
from segue.runners.fake import FakeLoader
from tests.support.live import Served

PATHS = [
    "/v1/completions",
    "/llamacpp/v1/completions",
    "/llamacpp/completion",
    "/llamafile/v1/completions",
    "/mistralrs/v1/completions",
    "/vllm/v1/completions",
    "/llamastack/v1/completions",
    "/ollama/v1/completions",
    "/api/generate",
]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    async def start() -> Engine:
        supervisor = Supervisor(FakeLoader("fake"), 64)
        await supervisor.start()
        return supervisor

    served = Served(Fleet([Member("fake", ("code", "fim"), start)]))
    yield served
    served.stop()


def model_of(server: Served, path: str, **body: Any) -> str:
    asked = {"prompt": "x", "max_tokens": 1, "stream": False, **body}
    if path.startswith("/api/"):
        asked |= {"options": {"num_predict": 1}}
    answer = server.client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["model"]
    return name


@pytest.mark.parametrize("path", PATHS)
def test_a_served_alias_stays_that_alias(server: Served, path: str) -> None:
    for name in ("fake", "code", "fim"):
        assert model_of(server, path, model=name) == name


@pytest.mark.parametrize("path", ["/v1/completions", "/llamacpp/completion"])
@pytest.mark.parametrize("name", [None, "", "default", "gpt-3.5-turbo-instruct"])
def test_a_name_that_is_not_served_is_not_repeated(
    server: Served, path: str, name: str | None
) -> None:
    assert model_of(server, path, model=name) == "fake"


def test_a_tag_of_ollama_is_kept(server: Served) -> None:
    assert model_of(server, "/api/generate", model="code:latest") == "code:latest"


def test_streams_too(server: Served) -> None:
    body = {"model": "code", "prompt": "x", "max_tokens": 1, "stream": True}
    answer = server.client.post("/v1/completions", json=body)
    assert '"model":"code"' in answer.text
    assert '"model":"fake"' not in answer.text


def test_llamacpp_lists_a_model_once_with_its_aliases(server: Served) -> None:
    server.client.post("/v1/completions", json={"prompt": "x"})
    (listed,) = server.client.get("/llamacpp/models").json()["data"]
    assert (listed["id"], listed["aliases"]) == ("fake", ["code", "fim"])
    names = [card["id"] for card in server.client.get("/v1/models").json()["data"]]
    assert names == ["fake", "code", "fim"]
