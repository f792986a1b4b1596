import json
import socket
import threading
from collections.abc import Iterable
from typing import Any

import openai
import pytest
from msgspec.structs import replace

from segue.bounds import DRAWN_SEEDS
from segue.dialects.rendering.logprobs import LegacyLogprobs
from segue.errors import Unavailable
from segue.server import endpoints
from segue.types import (
    Alternative,
    CompletionRequest,
    Delta,
    Event,
    Failed,
    Prompted,
    TokenScore,
)
from tests.server.conftest import Launch, Live
from tests.support.fakes import INFO, Pause, speak
from tests.support.prompt_scores import columns
from tests.support.waiting import PATIENCE_S


def events_of(body: str) -> list[str]:
    """The payloads of a stream, which must be nothing but `data: ` lines."""
    assert body.endswith("\n\n")
    frames = body.split("\n\n")[:-1]
    assert all(frame.startswith("data: ") for frame in frames)
    return [frame.removeprefix("data: ") for frame in frames]


def test_plain_answer(live: Live) -> None:
    answer = live.complete(model="tiny", seed=7)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-segue-seed"] == "7"
    assert "x-segue-ignored" not in answer.headers
    assert "server" not in answer.headers
    body = answer.json()
    assert body["id"] == "cmpl-" + answer.headers["x-request-id"]
    assert body["object"] == "text_completion"
    assert body["model"] == "tiny"
    assert body["choices"] == [
        {
            "index": 0,
            "text": "one two",
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]
    assert body["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 2,
        "total_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_stream_is_compact_events_and_done(live: Live) -> None:
    answer = live.complete(stream=True)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    *chunks, end = events_of(answer.text)
    assert end == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    for chunk, text in zip(parsed, chunks, strict=True):
        assert json.dumps(chunk, separators=(",", ":")) == text
        assert chunk["object"] == "text_completion"
        assert "usage" not in chunk
    assert [chunk["choices"][0]["text"] for chunk in parsed] == ["one", " two", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in parsed] == [None, None, "stop"]


def test_every_object_shows_the_models_fingerprint(live: Live) -> None:
    assert live.complete().json()["system_fingerprint"] == INFO.fingerprint
    chunks = events_of(live.complete(stream=True).text)[:-1]
    assert {json.loads(chunk)["system_fingerprint"] for chunk in chunks} == {INFO.fingerprint}


def test_stream_usage_only_when_asked(live: Live) -> None:
    answer = live.complete(stream=True, stream_options={"include_usage": True})
    *chunks, _ = map(json.loads, events_of(answer.text)[:-1])
    assert all(chunk["usage"] is None for chunk in chunks)
    last = json.loads(events_of(answer.text)[-2])
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 4


def test_openai_client(live: Live) -> None:
    """The real client reads both forms, and they agree."""
    with openai.OpenAI(base_url=live.url + "/v1", api_key="none", max_retries=0) as client:
        plain = client.completions.create(model="tiny", prompt=["ab", "cd"], n=2, logprobs=1)
        stream = client.completions.create(
            model="tiny", prompt=["ab", "cd"], n=2, logprobs=1, stream=True
        )
        texts = dict.fromkeys(range(4), "")
        for chunk in stream:
            texts[chunk.choices[0].index] += chunk.choices[0].text
        assert texts == {choice.index: choice.text for choice in plain.choices}
        assert plain.usage is not None
        assert plain.usage.completion_tokens == 8
        assert client.models.list().data[0].id == "tiny"
        with pytest.raises(openai.BadRequestError) as error:
            client.completions.create(model="tiny", prompt="")
        assert error.value.param == "prompt"


def test_seed_is_drawn_and_told(live: Live) -> None:
    first, second = live.complete(), live.complete()
    seeds = [int(answer.headers["x-segue-seed"]) for answer in (first, second)]
    assert seeds[0] != seeds[1]
    assert max(seeds) < DRAWN_SEEDS, "llama.cpp's dialect could not take it back"
    assert [request.sampling.seed for request in live.engine.requests] == seeds


def test_a_seed_is_not_drawn_for_an_engine_that_promises_nothing_of_it(live: Live) -> None:
    live.engine.info = replace(INFO, seeds_requests=False)
    assert "x-segue-seed" not in live.complete().headers
    assert live.complete(seed=7).headers["x-segue-seed"] == "7"
    assert [request.sampling.seed for request in live.engine.requests] == [None, 7]


def test_a_name_that_is_not_served_has_no_effect(live: Live) -> None:
    """A model that is alone answers to any name."""
    for model, ignored in (("gpt-4", "model"), ("default", None), ("tiny", None)):
        answer = live.complete(model=model)
        assert answer.json()["model"] == "tiny"
        assert answer.headers.get("x-segue-ignored") == ignored


def test_ignored_fields_are_named(live: Live) -> None:
    """Names that would not do in a header are left out, not sent."""
    answer = live.complete(api_server="x", other=None, **{"bad\r\nname": 1, "temperture": 1})
    assert answer.status_code == 200
    assert answer.headers["x-segue-ignored"] == "api_server, temperture"


@pytest.mark.parametrize(
    ("given", "is_kept"), [("abc_DEF-9", True), ("x" * 65, False), ("a b", False), ("", False)]
)
def test_request_id(live: Live, given: str, is_kept: bool) -> None:
    """A client may name its request; the engine's id is unique all the same."""
    for _ in range(2):
        answer = live.client.post(
            "/v1/completions", json={"prompt": "a"}, headers={"x-request-id": given}
        )
        assert (answer.headers["x-request-id"] == given) is is_kept
    first, second = live.engine.requests
    assert first.request_id != second.request_id


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"1",
        b"{} x",
        b'{"prompt":"\xff"}',
        rb'{"prompt":"\ud800"}',
        b'{"prompt":"a","n":NaN}',
        b'{"prompt":"a","n":1e400}',
        b"[" * 100_000,
        b'{"prompt":' * 50_000,
        b"\xef\xbb\xbf{}",
    ],
)
@pytest.mark.parametrize("is_stream", [False, True])
def test_malformed_bodies(live: Live, body: bytes, is_stream: bool) -> None:
    if is_stream:
        body = body.replace(b'{"prompt"', b'{"stream":true,"prompt"', 1)
    answer = live.client.post(
        "/v1/completions", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_large_body_is_read_the_same(live: Live) -> None:
    """Past 64 KiB the body is read in a thread."""
    assert live.complete(prompt=[7] * 40_000).json()["usage"]["prompt_tokens"] == 40_000
    assert live.complete(prompt=[-7] * 40_000).json()["error"]["param"] == "prompt"


def scored(num_top: int) -> TokenScore:
    return TokenScore(97, b"a", -1.0, 1, (Alternative(98, b"b", -2.0),) * num_top)


def scoring(request: CompletionRequest) -> list[Event | Pause | Exception]:
    """A prompt of 50 scored tokens with 100 alternatives each, then a hundred such tokens more."""
    prompt = Prompted(0, (97,) * 50, 0, "a" * 50, columns([scored(100)] * 50))
    return [prompt, *[Delta(0, "a", (97,), (scored(100),))] * 100, *list(speak()(request))[1:]]


@pytest.mark.parametrize("is_stream", [False, True])
def test_large_answers_are_rendered_beside_the_event_loop(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    """Whole ones, and of a stream what the prompt brings; small pieces are written where they arrive."""
    live, threads = launch(scoring), []
    push = LegacyLogprobs.push

    def noting(self: LegacyLogprobs, scores: Iterable[TokenScore]) -> Any:
        scores = list(scores)
        threads.append((len(scores), threading.current_thread().name != live.loop_thread))
        return push(self, scores)

    monkeypatch.setattr(LegacyLogprobs, "push", noting)
    answer = live.complete(echo=True, logprobs=100, stream=is_stream)
    assert answer.status_code == 200
    assert answer.text.count('"b":-2.0') == 150
    assert (50, True) in threads
    assert {is_beside for size, is_beside in threads if size > 1} == {True}


def test_an_answer_that_is_not_streamed_holds_so_many_scores(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream passes them on, and may go on as long as it likes."""
    monkeypatch.setattr(endpoints, "MAX_ANSWER_SCORES", 10_000)
    live = launch(scoring)
    answer = live.complete(logprobs=100)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "logprobs"
    assert live.complete(logprobs=100, stream=True).text.endswith("data: [DONE]\n\n")


def failing(request: object) -> list[Event]:
    return [Failed("context_length_exceeded", "too long", "prompt")]


@pytest.mark.parametrize("is_stream", [False, True])
def test_engine_refusal_is_a_status(launch: Launch, is_stream: bool) -> None:
    """What the engine finds wrong before the first token is an HTTP error, streamed or not."""
    answer = launch(failing).complete(stream=is_stream)
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "This model's maximum context length is exceeded: too long.",
            "type": "invalid_request_error",
            "param": "prompt",
            "code": "context_length_exceeded",
        }
    }


@pytest.mark.parametrize("is_stream", [False, True])
def test_unavailable_says_when_to_return(launch: Launch, is_stream: bool) -> None:
    answer = launch(lambda _: [Unavailable("restarting", retry_after_s=1.5)]).complete(
        stream=is_stream
    )
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert answer.headers["retry-after-ms"] == "1500"


@pytest.mark.parametrize("is_stream", [False, True])
def test_bug_in_engine_is_500_without_details(launch: Launch, is_stream: bool) -> None:
    answer = launch(lambda _: [ZeroDivisionError("secret")]).complete(stream=is_stream)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["error"]["code"] == "engine_fault"


@pytest.mark.parametrize("end", [Failed("engine_died", "gone"), ZeroDivisionError("x")])
def test_failure_in_a_stream_is_an_event_and_done(launch: Launch, end: Event | Exception) -> None:
    pause = Pause()
    live = launch(lambda _: [Prompted(0, (1,), 0), Delta(0, "one", (1,)), pause, end])
    with live.client.stream(
        "POST", "/v1/completions", json={"prompt": "a", "stream": True}
    ) as answer:
        lines = answer.iter_lines()
        assert answer.status_code == 200
        assert '"text":"one"' in next(lines)
        live.release(pause)
        rest = [line for line in lines if line]
    assert len(rest) == 2
    assert "error" in json.loads(rest[0].removeprefix("data: "))
    assert rest[1] == "data: [DONE]"


@pytest.mark.parametrize(("has_fim", "way"), [(True, "fim"), (False, "ranked")])
def test_how_a_gap_will_be_filled_is_known_before_the_prompt_is_read(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, has_fim: bool, way: str
) -> None:
    monkeypatch.setattr(endpoints, "HEADERS_AFTER_S", 0.01)
    pause = Pause()
    live = launch(lambda request: [pause, *speak("one")(request)])
    live.engine.info = replace(INFO, has_fim=has_fim)
    body = {"prompt": "a", "suffix": "b", "stream": True}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.headers["x-segue-infill"] == way
        live.release(pause)
        answer.read()


def test_a_schema_that_may_be_ignored_in_part_is_named_before_it_is_read(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "HEADERS_AFTER_S", 0.01)
    pause = Pause()
    live = launch(lambda request: [pause, *speak("one")(request)])
    schema = {"maxLen": 1, "x-guidance": {"lenient": True}}
    body = {"prompt": "a", "json_schema": schema, "other": 1, "stream": True}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.headers["x-segue-ignored"] == "other, json_schema"
        live.release(pause)
        answer.read()


def send_raw(live: Live, body: bytes) -> socket.socket:
    connection = live.connect()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("is_stream", [b"true", b"false"])
@pytest.mark.parametrize("num_words", [0, 1])
def test_disconnect_closes_the_generator(launch: Launch, is_stream: bytes, num_words: int) -> None:
    """Streamed or not, queued (nothing said yet) or running: the engine hears of it at once."""
    said = [Prompted(0, (1,), 0), Delta(0, "one", (1,))] if num_words else []
    live = launch(lambda _: [*said, Pause()])
    connection = send_raw(live, b'{"prompt":"a","stream":%b}' % is_stream)
    assert live.engine.started.wait(PATIENCE_S)
    if num_words and is_stream == b"true":
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
    assert not live.engine.closed.is_set()
    connection.close()
    assert live.engine.closed.wait(PATIENCE_S)


def test_disconnect_while_the_model_loads(launch: Launch) -> None:
    live = launch()
    loading, cancelled = Pause(), threading.Event()

    async def gate() -> None:
        live.engine.started.set()
        try:
            await loading.go.wait()
        finally:
            cancelled.set()

    live.models.gate = gate
    connection = send_raw(live, b'{"prompt":"a"}')
    assert live.engine.started.wait(PATIENCE_S)
    connection.close()
    assert cancelled.wait(PATIENCE_S)
    assert live.engine.requests == []


def test_disconnect_in_the_middle_of_a_body(live: Live) -> None:
    connection = live.connect()
    connection.sendall(
        b'POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{"pr'
    )
    connection.close()
    assert live.complete().status_code == 200
    assert len(live.engine.requests) == 1


def test_one_connection_serves_many(live: Live) -> None:
    """The watcher for a disconnect must not eat the next request of a kept connection."""
    for _ in range(3):
        assert live.complete().status_code == 200
        assert live.complete(stream=True).text.endswith("data: [DONE]\n\n")
        assert live.complete(n=0).status_code == 400
