"""One suite for every dialect: the golden requests of tests/contract, sent to a real socket."""

import importlib
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from segue.dialects import DIALECTS
from segue.runners.fake import FakeLoader
from tests.contract import ASPECTS, DONE, MODEL, SCRIPT, Case
from tests.support.live import Served, serve


def cases_of(dialect: str) -> list[Case]:
    cases: list[Case] = importlib.import_module(f"tests.contract.{dialect}").CASES
    return cases


CASES = {
    f"{dialect.name}-{case.aspect}-{number}": case
    for dialect in DIALECTS
    for number, case in enumerate(cases_of(dialect.name))
}


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    served = serve(FakeLoader(MODEL, script=SCRIPT.encode()), MODEL)
    yield served
    served.stop()


def send(server: Served, case: Case) -> httpx2.Response:
    raw = case.body if isinstance(case.body, bytes) else json.dumps(case.body).encode()
    content = None if case.method == "GET" else raw
    headers = {"content-type": "application/json"} if content is not None else {}
    return server.client.request(case.method, case.path, content=content, headers=headers)


def chunks_of(answer: httpx2.Response) -> list[Any]:
    """The objects of a stream, by the framing its content type promises and nothing looser."""
    if answer.headers["content-type"].startswith("application/x-ndjson"):
        assert answer.text.endswith("\n")
        payloads = answer.text[:-1].split("\n")
    else:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.text.endswith("\n\n")
        frames = answer.text[:-2].split("\n\n")
        assert all(frame.startswith("data: ") for frame in frames)
        payloads = [frame.removeprefix("data: ") for frame in frames]
    assert "\r" not in answer.text
    return [payload if payload == DONE else compact(payload) for payload in payloads]


def compact(payload: str) -> Any:
    """llama.vim and its kin search the text of an answer: no space may follow a colon."""
    parsed = msgspec.json.decode(payload)
    assert msgspec.json.encode(parsed).decode() == payload
    return parsed


@pytest.mark.parametrize("name", CASES)
def test_golden(server: Served, name: str) -> None:
    case = CASES[name]
    answer = send(server, case)
    assert answer.status_code == case.status, answer.text
    assert {key: answer.headers.get(key) for key in case.headers} == dict(case.headers)
    if case.chunks is not None:
        assert chunks_of(answer) == list(case.chunks)
    elif answer.headers["content-type"].startswith("application/json"):
        assert compact(answer.text) == case.answer
    else:
        assert answer.text == case.answer


@pytest.mark.parametrize("dialect", [dialect.name for dialect in DIALECTS])
def test_every_aspect_is_shown_and_traced(dialect: str) -> None:
    cases = cases_of(dialect)
    assert {case.aspect for case in cases} == set(ASPECTS)
    assert all(case.source for case in cases)
