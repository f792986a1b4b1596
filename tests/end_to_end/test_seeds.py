"""The examples in each system's own manual, sent as they stand there, are answered as they show.

The texts are a model's own; what is held to is the shape: every key the manual shows, with the type it has there.
"""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest

from segue.runners.fake import FakeLoader
from tests.support.live import Served, serve

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    served = serve(FakeLoader("fake", end_bias=6.0), "fake")
    yield served
    served.stop()


def post(server: Served, path: str, body: str, **headers: str) -> httpx2.Response:
    return server.client.post(path, content=body, headers={**JSON, **headers})


def shape(value: Any) -> Any:
    """The keys and types of a value; null may stand for anything that is not there."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    return type(value).__name__


def is_like(actual: Any, shown: Any) -> bool:
    """Whether it has all that the manual shows; more may come with it."""
    if isinstance(shown, dict):
        return isinstance(actual, dict) and all(
            key in actual and is_like(actual[key], inner) for key, inner in shown.items()
        )
    if isinstance(shown, list):
        if not isinstance(actual, list) or bool(actual) != bool(shown):
            return False
        return all(is_like(each, shown[0]) for each in actual)
    if isinstance(shown, float):
        return isinstance(actual, int | float)
    return type(actual) is type(shown)


# --- llama.cpp -----------------------------------------------------------------------------------

LLAMACPP = "/llamacpp/v1/completions"

STORY = (
    '{"model": "gpt-3.5-turbo", "prompt": "Once upon a time", "max_tokens": 50, "temperature": 0.7}'
)
STORY_SHOWN = {
    "id": "cmpl-abc123",
    "object": "text_completion",
    "created": 1677652288,
    "model": "gpt-3.5-turbo",
    "choices": [{"text": " in a", "index": 0, "logprobs": None, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 4, "completion_tokens": 46, "total_tokens": 50},
}


def test_llamacpp_request(server: Served) -> None:
    answer = post(server, LLAMACPP, STORY, authorization="Bearer no-key").json()
    assert is_like(answer, STORY_SHOWN), shape(answer)
    assert answer["id"].startswith("cmpl-")
    assert answer["object"] == "text_completion"


def test_llamacpp_stream(server: Served) -> None:
    body = json.dumps({**json.loads(STORY), "stream": True})
    *chunks, done, rest = post(server, LLAMACPP, body).text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    shown = {key: value for key, value in STORY_SHOWN.items() if key != "usage"}
    parsed = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    for chunk in parsed[:-1]:
        open_choice = {"text": " in", "index": 0, "logprobs": None, "finish_reason": None}
        assert is_like(chunk, {**shown, "choices": [open_choice]})
    assert parsed[-1]["choices"][0]["text"] == ""
    assert parsed[-1]["choices"][0]["finish_reason"] in ("stop", "length")


def test_llamacpp_logprobs(server: Served) -> None:
    body = '{"model": "gpt-3.5-turbo", "prompt": "The sky is", "max_tokens": 5, "logprobs": 3}'
    (choice,) = post(server, LLAMACPP, body).json()["choices"]
    shown = {
        "tokens": [" blue"],
        "token_logprobs": [-0.0234],
        "top_logprobs": [{}],
        "text_offset": [0],
    }
    assert is_like(choice["logprobs"], shown)
    assert choice["logprobs"]["text_offset"][0] == 0
    assert all(len(top) >= 3 for top in choice["logprobs"]["top_logprobs"])


def test_llamacpp_batch(server: Served) -> None:
    body = """{
      "model": "gpt-3.5-turbo",
      "prompt": ["The capital of France is", "The capital of Germany is", "The capital of Italy is"],
      "max_tokens": 5
    }"""
    choices = post(server, LLAMACPP, body).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert is_like(choices, [{"text": " Paris", "index": 0, "finish_reason": "stop"}])


def test_llamacpp_suffix(server: Served) -> None:
    body = r"""{"model": "codellama", "prompt": "def fibonacci(n):\n    ",
                "suffix": "\n    return result", "max_tokens": 100}"""
    answer = post(server, LLAMACPP, body)
    assert answer.status_code == 200
    assert answer.headers["x-segue-infill"] == "fim"


def test_llamacpp_grammar(server: Served) -> None:
    """The manual quotes with apostrophes."""
    body = (
        r'{"model": "gpt-3.5-turbo", "prompt": "Generate a simple arithmetic expression:", '
        r'"max_tokens": 20, "grammar": "root ::= expr\nexpr ::= term (('
        r"'+' | '-') term)*\nterm ::= factor (('*' | '/') factor)*\nfactor ::= [0-9]+ | "
        r"""'(' expr ')'"}"""
    )
    text = post(server, LLAMACPP, body).json()["choices"][0]["text"]
    assert text
    assert set(text) <= set("0123456789+-*/()")


PRODUCT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "price": {"type": "number", "minimum": 0},
        "in_stock": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 5},
    },
    "required": ["name", "price"],
}


def test_llamacpp_json_schema(server: Served) -> None:
    """Where the answer is complete it fits; where max_tokens cut it, it is the start of one that does."""
    request = {
        "model": "gpt-3.5-turbo",
        "prompt": "Generate a product:",
        "max_tokens": 100,
        "json_schema": PRODUCT,
    }
    for seed in range(8):
        body = json.dumps({**request, "seed": seed, "logit_bias": [['"', 6], ["}", 6]]})
        (choice,) = post(server, LLAMACPP, body).json()["choices"]
        assert choice["text"].lstrip().startswith("{")
        if choice["finish_reason"] == "stop":
            jsonschema.validate(json.loads(choice["text"]), PRODUCT)
            return
    pytest.fail("no answer was complete")


def test_llamacpp_mirostat(server: Served) -> None:
    body = """{
      "model": "gpt-3.5-turbo",
      "prompt": "Write a creative story:",
      "max_tokens": 200,
      "mirostat": 2,
      "mirostat_tau": 5.0,
      "mirostat_eta": 0.1
    }"""
    answer = post(server, LLAMACPP, body)
    assert answer.status_code == 200
    assert answer.headers["x-segue-ignored"] == "model"  # its manual's, which is not served here


def test_llamacpp_error(server: Served) -> None:
    answer = post(server, LLAMACPP, '{"model": "gpt-3.5-turbo"}')
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {"message": "prompt is required", "type": "invalid_request_error", "code": 400}
    }


# --- llamafile -----------------------------------------------------------------------------------


def test_llamafile_documents_every_field(server: Served) -> None:
    """Its manual has no example: a request with every field it names, and null where that is allowed."""
    fields = {
        "model": "LLaMA_CPP",
        "prompt": "Once upon a time",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 5,
        "top_p": 1.0,
        "temperature": 1.0,
        "seed": 31337,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.5,
        "user": "me",
        "stop": ["a", "b", "c", "d"],
    }
    answer = post(server, "/llamafile/v1/completions", json.dumps(fields))
    *chunks, _, _ = answer.text.split("\n\n")
    parsed = [json.loads(chunk.removeprefix("data: ")) for chunk in chunks]
    assert all(chunk["model"] == "LLaMA_CPP" for chunk in parsed)
    assert all(chunk["usage"] is None for chunk in parsed[:-1])
    assert (parsed[-1]["choices"], bool(parsed[-1]["usage"])) == ([], True)
    assert answer.headers["x-segue-ignored"] == "user, model"
    nulls = dict.fromkeys(set(fields) - {"model", "prompt", "max_tokens"})
    answer = post(server, "/llamafile/v1/completions", json.dumps({**fields, **nulls}))
    assert answer.status_code == 200


# --- mistral.rs ----------------------------------------------------------------------------------

MISTRALRS = """{ "best_of": 1, "dry_allowed_length": null, "dry_base": null, "dry_multiplier": null,
"dry_sequence_breakers": null, "echo": false, "frequency_penalty": null, "grammar": { "type": "regex", "value":
"example" }, "logit_bias": null, "logprobs": null, "max_tokens": 16, "min_p": null, "model": "mistral", "n": 1,
"presence_penalty": null, "prompt": "Say this is a test.", "repetition_penalty": null, "stop": "example", "stream":
true, "suffix": null, "temperature": 0.7, "tool_choice": "none", "tools": null, "top_k": null, "top_p": null,
"truncate_sequence": null, "user": "example" }"""


def test_mistralrs_request(server: Served) -> None:
    """Its grammar allows one text only, and its stop string swallows that."""
    answer = post(server, "/mistralrs/v1/completions", MISTRALRS)
    assert answer.status_code == 200
    assert answer.headers["x-segue-ignored"] == "user, model"
    *chunks, done, _ = answer.text.split("\n\n")
    assert done == "data: [DONE]"
    last = json.loads(chunks[-1].removeprefix("data: "))
    assert last["choices"][0]["finish_reason"] == "stop"
    plain = json.dumps({**json.loads(MISTRALRS), "stop": None, "stream": False})
    assert (
        post(server, "/mistralrs/v1/completions", plain).json()["choices"][0]["text"] == "example"
    )
