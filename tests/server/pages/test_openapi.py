import importlib
import json
import re
from functools import cache
from typing import Any

import jsonschema
import pytest

from segue.dialects import DIALECTS
from segue.server.app import mounts_of
from segue.server.pages.openapi import openapi, table_schema
from tests.server.conftest import Launch, Live

LENIENT = {"vllm", "llamastack"}  # take "5" for 5 as their systems do, which nobody should rely on
ENDS = {prefix + end.path: (dialect, end) for prefix, dialect, end in mounts_of(DIALECTS, "openai")}


def accepted() -> list[tuple[str, Any]]:
    """Every golden request that is answered, with its path."""
    named = [dialect.name for dialect in DIALECTS if dialect.name not in LENIENT]
    modules = [importlib.import_module(f"tests.contract.{name}") for name in named]
    cases = [case for module in modules for case in module.CASES]
    return [
        (case.path.partition("?")[0], case.body)
        for case in cases
        if case.status == 200 and case.method == "POST" and isinstance(case.body, dict)
    ]


@cache
def validator(path: str) -> Any:
    """Of one of `test_schemas_are_schemas`: that it is a schema is not checked again for every body."""
    _, end = ENDS[path]
    return jsonschema.Draft202012Validator(table_schema(end.table))


@pytest.mark.parametrize(("path", "body"), accepted())
def test_what_is_answered_is_as_described(path: str, body: Any) -> None:
    validator(path).validate(json.loads(json.dumps(body)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_schemas_are_schemas(dialect: Any) -> None:
    for operation in dialect.operations:
        jsonschema.Draft202012Validator.check_schema(table_schema(operation.table))


def test_every_path_is_described_and_served(launch: Launch) -> None:
    live = launch(dialects=DIALECTS)
    document = live.client.get("/openapi.json").json()
    assert document == json.loads(json.dumps(openapi(mounts_of(DIALECTS, "openai"), "0.1.0"))) | {
        "info": document["info"]
    }
    described = {
        (method, path) for path, methods in document["paths"].items() for method in methods
    }
    assert ("post", "/v1/completions") in described
    assert ("get", "/vllm/v1/models/{model}") in described or (
        "get",
        "/v1/models/{model}",
    ) in described
    ids = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))
    names = document["components"]["schemas"]
    assert names["llamacpp_v1_completions"]["required"] == ["prompt"]
    assert names["openai_v1_completions"]["properties"]["stream_options"]["type"] == [
        "object",
        "null",
    ]


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        ("/v1/completions", ["application/json", "text/event-stream"]),
        ("/ollama/api/generate", ["application/json", "application/x-ndjson"]),
        ("/vllm/generative_scoring", ["application/json"]),
        ("/vllm/tokenize", ["application/json"]),
    ],
)
def test_a_path_is_said_to_stream_where_it_can(path: str, kinds: list[str]) -> None:
    told = openapi(mounts_of(DIALECTS, "openai"), "0.1.0")["paths"][path]["post"]
    assert list(told["responses"]["200"]["content"]) == kinds


def test_a_page_that_goes_on_is_said_to() -> None:
    told = openapi(mounts_of(DIALECTS, "openai"), "0.1.0")["paths"]["/llamacpp/models/sse"]["get"]
    assert list(told["responses"]["200"]["content"]) == ["text/event-stream"]


def test_what_is_deleted_is_named_in_the_query() -> None:
    told = openapi(mounts_of(DIALECTS, "openai"), "0.1.0")["paths"]["/llamacpp/v1/stream"]["delete"]
    assert [(each["name"], each["in"]) for each in told["parameters"]] == [("conv_id", "query")]
    assert "requestBody" not in told


def test_the_page_needs_nothing_from_elsewhere(live: Live) -> None:
    answer = live.client.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "<script" not in answer.text
    links = set(re.findall(r'(?:href|src)="([^"#]+)', answer.text))
    assert links == {"/", "/openapi.json", "/docs/style.css", "/play/icon.svg"}
    assert live.client.get("/docs/style.css").headers["content-type"] == "text/css; charset=utf-8"
    assert "<code>max_completion_tokens</code>" in answer.text
    assert "or <code>default</code>." in answer.text
    assert "`" not in answer.text


def test_the_page_tells_paths_without_a_prefix(live: Live) -> None:
    page = live.client.get("/docs").text
    assert "<td><code>/openai/v1/completions</code> or <code>/v1/completions</code></td>" in page
    assert "<td><code>/openai/v1/models/{model}</code> or " in page
