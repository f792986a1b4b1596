"""What is not a completion: bounded, read beside the event loop where it is large, and honest about what it ignores."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from segue.bounds import MAX_DETOKENIZE_TOKENS, MAX_TOKENIZE_CHARS
from segue.dialects import DIALECTS
from segue.dialects.openai import tokens
from segue.server import companions
from tests.server.conftest import Launch, Live
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def all_dialects(launch: Launch) -> Live:
    return launch(dialects=DIALECTS)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {"prompt": "a" * (MAX_TOKENIZE_CHARS + 1)}, "prompt"),
        ("/vllm/tokenize", {"model": "tiny", "prompt": "a" * (MAX_TOKENIZE_CHARS + 1)}, "prompt"),
        ("/llamacpp/tokenize", {"content": "a" * (MAX_TOKENIZE_CHARS + 1)}, "content"),
        ("/llamacpp/tokenize", {"content": ["a" * MAX_TOKENIZE_CHARS, 1]}, "content"),
        ("/llamafile/tokenize", {"prompt": "a" * (MAX_TOKENIZE_CHARS + 1)}, "prompt"),
        ("/detokenize", {"tokens": [1] * (MAX_DETOKENIZE_TOKENS + 1)}, "tokens"),
        ("/llamacpp/detokenize", {"tokens": [1] * (MAX_DETOKENIZE_TOKENS + 1)}, "tokens"),
    ],
)
def test_what_is_tokenized_is_bounded(
    all_dialects: Live, path: str, body: dict[str, Any], param: str
) -> None:
    answer = all_dialects.client.post(path, json=body)
    assert answer.status_code in (400, 413)
    if answer.status_code == 400:
        assert param in answer.text
    assert f"{MAX_TOKENIZE_CHARS}" in answer.text or f"{MAX_DETOKENIZE_TOKENS}" in answer.text


def test_large_ones_leave_the_event_loop_alone(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding, the texts of the tokens and the encoding of the answer: each in a thread, or in none."""
    threads: list[str] = []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            threads.append(threading.current_thread().name)
            return work(*arguments)

        return noted

    for module, name in (
        (companions, "decode"),
        (companions, "reply_messages"),
        (tokens, "token_text"),
    ):
        monkeypatch.setattr(module, name, noting(getattr(module, name)))
    for size, is_beside in ((100, False), (100_000, True)):
        threads.clear()
        body = {"prompt": "a" * size, "return_token_strs": True}
        answer = live.client.post("/tokenize", json=body)
        assert answer.json()["token_strs"] == ["a"] * size
        assert len(threads) == size + 2
        assert {name != live.loop_thread for name in threads} == {is_beside}


def test_a_client_that_leaves_frees_its_place(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model may take a minute to load: those who asked for tokens and left filled the queue for as long."""
    has_begun, has_ended = threading.Event(), threading.Event()

    async def tokenize(*_: object) -> list[int]:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()
        return []

    monkeypatch.setattr(live.engine, "tokenize", tokenize)
    with live.connect() as client:
        body = b'{"prompt":"a"}'
        head = b"POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        client.sendall(head + body)
        assert has_begun.wait(PATIENCE_S)
        assert live.admission.limiter.num_waiting == 1
    assert has_ended.wait(PATIENCE_S)
    wait_until(lambda: live.admission.limiter.num_waiting == 0)


def test_a_request_past_its_time_is_ended(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """--request-timeout held for completions only."""
    live = launch(request_timeout_s=0.05)

    async def tokenize(*_: object) -> list[int]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(live.engine, "tokenize", tokenize)
    answer = live.client.post("/tokenize", json={"prompt": "a"})
    assert answer.status_code == 504
    assert answer.json()["error"]["message"] == "The request took longer than 0.05 seconds."
    assert live.admission.limiter.num_waiting == 0
    assert not caplog.records


@pytest.mark.parametrize(
    ("method", "path", "ignored"),
    [
        ("POST", "/tokenize", "with_pieces, nonsense"),
        ("POST", "/llamacpp/tokenize", "nonsense"),
        ("POST", "/llamacpp/detokenize", "content, with_pieces, nonsense"),
        ("POST", "/api/show", "content, with_pieces, nonsense"),
        ("GET", "/v1/models", "with_pieces, nonsense"),
        ("GET", "/slots", "with_pieces, nonsense"),
        ("GET", "/health", "with_pieces, nonsense"),
    ],
)
def test_ignored_fields_are_named_on_every_endpoint(
    all_dialects: Live, method: str, path: str, ignored: str
) -> None:
    body = {"content": "a", "with_pieces": True, "nonsense": 1}
    if path == "/api/show":
        body["model"] = "tiny"
    if method == "POST":
        answer = all_dialects.client.post(path, json=body)
    else:
        answer = all_dialects.client.get(f"{path}?with_pieces=1&nonsense=1")
    assert answer.status_code == 200
    assert answer.headers["x-segue-ignored"] == ignored


@pytest.mark.parametrize("path", ["/tokenize", "/llamacpp/tokenize", "/vllm/tokenize"])
def test_tokens_are_those_of_the_model_that_was_named(all_dialects: Live, path: str) -> None:
    body = {"content": "a", "model": "tiny"}
    answer = all_dialects.client.post(path, json=body)
    assert (answer.status_code, answer.headers.get("x-segue-ignored")) == (200, None)
    assert all_dialects.client.post(path, json={**body, "model": "unknown"}).status_code == 404


def test_tokens_are_joined_by_the_model_that_was_named(all_dialects: Live) -> None:
    for name, status in (("tiny", 200), ("unknown", 404)):
        body = {"tokens": [1], "model": name}
        assert all_dialects.client.post("/llamacpp/detokenize", json=body).status_code == status


def test_templates_are_those_of_the_model_that_would_complete(all_dialects: Live) -> None:
    """Where one model is served, any name is its own, as it is for completions."""
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    statuses = [
        all_dialects.client.post(
            "/llamacpp/apply-template", json={**asked, "model": model}
        ).status_code
        for model in ("other", "unknown")
    ]
    assert statuses == [501, 404]  # this model has no template


@pytest.mark.parametrize(
    ("query", "body", "verb", "filename"),
    [
        ("?action=erase", {"action": "restore", "filename": "a.bin"}, "erase", ""),
        ("?action=save&filename=b.bin", {"filename": "a.bin"}, "save", "a.bin"),
        ("", {"action": "save", "filename": "a.bin"}, "save", "a.bin"),
    ],
)
def test_what_is_done_to_a_slot_is_up_to_the_query_and_to_which_file_to_the_body(
    all_dialects: Live, query: str, body: dict[str, str], verb: str, filename: str
) -> None:
    """As in llama.cpp's server: the action of the body was taken, so that a slot was restored, not erased."""
    assert all_dialects.client.post(f"/slots/0{query}", json=body).status_code == 200
    (done,) = all_dialects.engine.slot_actions
    assert (done.verb, done.filename) == (verb, filename)
