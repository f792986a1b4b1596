"""What is served for the page, to browsers and to those who are none."""

import re

import pytest
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.testclient import TestClient

from segue.bounds import MAX_TRANSLATED_BYTES
from segue.dialects import DIALECTS
from segue.runners.fake import FakeLoader
from segue.server.admission.keys import Keyring, parse_key
from segue.server.playground.paths import NAMES, STATIC
from segue.server.playground.routes import routes
from segue.types import Origin
from tests.support.fakes import INFO, OneModel, ScriptedEngine, speak
from tests.support.live import Live

PAGE = {"accept": "text/html,application/xhtml+xml"}


def test_a_browser_gets_the_page_under_the_strict_policy(served: Live) -> None:
    answer = served.client.get("/", headers=PAGE)
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|\sstyle=", answer.text)


def test_others_are_told_the_way(served: Live) -> None:
    answer = served.client.get("/", headers={"accept": "*/*", "user-agent": "curl/8.5.0"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert "/v1/completions" in answer.text


def test_ollamas_clients_find_their_words(served: Live) -> None:
    agent = {"user-agent": "ollama/0.33.0 (amd64 linux) Go/go1.24"}
    assert served.client.get("/", headers=agent).text == "Ollama is running"
    assert served.client.head("/", headers=agent).status_code == 200
    assert served.client.get("/ollama/").text == "Ollama is running"


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_and_asks_for_nothing_from_elsewhere(served: Live, name: str) -> None:
    answer = served.client.get(f"/play/{name}")
    assert answer.status_code == 200
    assert "octet-stream" not in answer.headers["content-type"]
    text = answer.text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}/", text)
    assert "eval(" not in text
    assert "innerHTML" not in text


def test_files_stay_small_and_are_named_by_the_page_or_by_each_other() -> None:
    texts = {name: (STATIC / name).read_text("utf-8") for name in NAMES}
    for name, text in texts.items():
        assert len(text.splitlines()) <= 400, name
        assert name == "index.html" or any(name in other for other in texts.values())


@pytest.mark.parametrize("name", ["../routes.py", "%2e%2e/routes.py", "nothing.js", "index.html/"])
def test_no_other_file_can_be_had(served: Live, name: str) -> None:
    assert served.client.get(f"/play/{name}").status_code == 404


def test_the_guide_tells_every_field_once_in_the_words_of_the_tables(served: Live) -> None:
    guide = served.client.get("/play/guide.json").json()
    names = [each["name"] for each in guide["parameters"]]
    assert len(names) == len(set(names))
    assert names[:2] == ["max_tokens", "temperature"]
    assert all(each["doc"] for each in guide["parameters"])
    assert [each["name"] for each in guide["dialects"]] == [each.name for each in DIALECTS]


def test_the_state_of_the_models_is_told(served: Live) -> None:
    state = served.client.get("/play/models.json").json()
    [model] = state["models"]
    assert model["status"] == "ready"
    assert model["info"]["deterministic"] is True
    assert state["keys"] is False


def test_the_size_of_a_model_is_told_as_the_command_line_tells_it() -> None:
    """It was that of the tensors, in other digits."""
    engine = ScriptedEngine(speak())
    engine.info = replace(INFO, size_bytes=96_600_000, origin=Origin(num_bytes=98_362_432))
    models = OneModel()
    models.load(engine)
    page = Starlette(routes=routes(models, DIALECTS, "openai", needs_key=False))
    with TestClient(page) as client:
        [model] = client.get("/play/models.json").json()["models"]
    assert model["size"] == "98.4 MB"


def test_with_keys_the_page_opens_and_what_it_links_to_and_nothing_else() -> None:
    with Live(FakeLoader(), keys=Keyring([parse_key("me:secret")])) as live:
        assert live.client.get("/", headers=PAGE).status_code == 200
        assert live.client.get("/play/main.js").status_code == 200
        assert live.client.get("/docs").status_code == 200
        assert live.client.get("/openapi.json").status_code == 200
        assert live.client.get("/play/models.json").status_code == 401
        assert live.client.post("/play/translate", json={}).status_code == 401
        key = {"authorization": "Bearer secret"}
        assert live.client.get("/play/models.json", headers=key).json()["keys"] is True


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"dialect": "klingon", "request": {}}, "dialect"),
        ({"dialect": "vllm", "request": 3}, "request"),
        ({"dialect": "vllm", "request": {"prompt": "x", "temperature": 9}}, "temperature"),
        ([], None),
    ],
)
def test_a_bad_wish_for_other_words_is_a_400(served: Live, body: object, param: str) -> None:
    answer = served.client.post("/play/translate", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    "request_",
    [
        b'{"prompt":"%b"}' % (b"x" * MAX_TRANSLATED_BYTES),
        b'{"prompt":[%b1]}' % (b"1," * (MAX_TRANSLATED_BYTES // 2)),
        b'{"prompt":[%b[]]}' % (b"[]," * (MAX_TRANSLATED_BYTES // 4)),
    ],
    ids=["a long text", "numbers", "within its size, but of too many lists"],
)
def test_other_words_are_for_people_not_for_bodies_that_take_seconds(
    served: Live, request_: bytes
) -> None:
    body = b'{"dialect":"vllm","request":%b}' % request_
    headers = {"content-type": "application/json"}
    answer = served.client.post("/play/translate", content=body, headers=headers)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        ({}, "http://127.0.0.1:"),
        ({"host": "x.org", "origin": "http://x.org"}, "http://x.org/"),
        ({"host": "x.org", "origin": "https://x.org"}, "https://x.org/"),
    ],
)
def test_code_has_the_address_of_the_page_behind_a_proxy_with_tls_too(
    served: Live, headers: dict[str, str], address: str
) -> None:
    body = {"dialect": "vllm", "request": {"prompt": "x"}}
    said = served.client.post("/play/translate", json=body, headers=headers).json()
    assert all(address in code for code in said["code"].values())
