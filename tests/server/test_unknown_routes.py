"""What is not served is 404 in the shape of the system that would be asked, whatever else is wrong."""

from collections.abc import Iterator

import pytest

from segue.dialects import DIALECTS
from segue.server.admission.keys import Keyring, parse_key
from tests.server.conftest import TWO_WORDS, Launch, Live

MEDIA = ["application/json", "text/plain", "application/x-www-form-urlencoded", ""]


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    live = Live(TWO_WORDS, DIALECTS)
    yield live
    live.stop()


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("prefix", ["", *(f"/{dialect.name}" for dialect in DIALECTS)])
def test_an_unknown_route_is_404_whatever_the_content_type(
    server: Live, prefix: str, media: str
) -> None:
    headers = {"content-type": media} if media else {}
    answer = server.client.post(f"{prefix}/v1/nothing", content=b"{", headers=headers)
    assert answer.status_code == 404
    # The connection is still good for the next request.
    assert server.complete().status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/api/chat", "/api/embed", "/api/nothing"])
def test_unserved_paths_of_ollama_at_the_root_have_its_shape(
    server: Live, method: str, path: str
) -> None:
    answer = server.client.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["error"].startswith(f"There is nothing at {method} '{path}'.")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/chat/completions", "only completions: POST /v1/completions."),
        ("/llamacpp/v1/chat/completions", "only completions: POST /llamacpp/v1/completions."),
        ("/v1/completion", "Is /v1/completions meant?"),
        ("/v1/nothing", "'/v1/nothing'."),
    ],
)
def test_what_was_meant_is_named(server: Live, path: str, hint: str) -> None:
    answer = server.client.post(path, json={"prompt": "x"})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"].endswith(hint)


def test_a_model_that_is_not_there_is_refused_with_the_names_that_are(server: Live) -> None:
    for answer in (
        server.client.get("/v1/models/unknown"),
        server.client.post("/vllm/tokenize", json={"model": "unknown", "prompt": "x"}),
    ):
        assert answer.status_code == 404
        assert "served: tiny" in answer.json()["error"]["message"]


def test_scales_of_adapters_are_sent_as_a_list(server: Live) -> None:
    answer = server.client.post("/lora-adapters", json={"id": 0, "scale": 1.0})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        'The body must be a list: the value of lora, not an object with "id", "scale".'
    )


@pytest.mark.parametrize("prefix", ["", "/openai", "/llamastack", "/ollama"])
def test_no_name_is_not_a_model(server: Live, prefix: str) -> None:
    nameless = server.client.get(f"{prefix}/v1/models/")
    assert nameless.status_code == 404
    assert f"Is {prefix}/v1/models meant?" in nameless.text
    assert server.client.get(f"{prefix}/v1/models/tiny").status_code == 200


def test_a_refusal_has_the_shape_of_its_path(launch: Launch) -> None:
    """Also where a dialect has two: Ollama's own, and OpenAI's beside it."""
    live = launch(dialects=DIALECTS, keys=Keyring([parse_key("ada:secret")]))
    body = {"model": "tiny", "prompt": "x"}
    native = live.client.post("/ollama/api/generate", json=body)
    beside = live.client.post("/ollama/v1/completions", json=body)
    assert native.status_code == beside.status_code == 401
    assert isinstance(native.json()["error"], str)
    assert beside.json()["error"].keys() == {"message", "type", "param", "code"}
    wrong = live.client.get("/ollama/v1/completions", headers={"x-api-key": "secret"})
    assert (wrong.status_code, wrong.text) == (405, "405 method not allowed")
