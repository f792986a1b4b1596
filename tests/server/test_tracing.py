"""Traces of requests: what a span holds, whose trace it goes on with, and the real exporter at a real receiver."""

import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from segue.dialects import DIALECTS
from segue.errors import SetupError
from segue.server.tracing import MISSING, _whole, exporting, tracing
from segue.types import CompletionRequest, Delta, Failed, Prompted
from tests.server.conftest import Live
from tests.support.fakes import speak
from tests.support.waiting import PATIENCE_S

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is waited for, however busy the machine is."""
    monkeypatch.setattr("segue.server.tracing.LAST_SPANS_S", PATIENCE_S)


class Traced:
    """A server whose spans are kept; they are read when it has stopped, so that none is missed."""

    def __init__(self, script: Any = None, **settings: Any) -> None:
        self._kept = InMemorySpanExporter()
        self._tracing = tracing(self._kept)
        trace = self._tracing.__enter__()
        script = script or speak("one", " two")
        self.live = Live(script, dialects=DIALECTS, trace=trace, **settings)

    def spans(self) -> list[ReadableSpan]:
        self.live.stop()
        self._tracing.__exit__(None, None, None)
        return list(self._kept.get_finished_spans())


def test_a_span_says_what_was_asked_and_what_it_cost() -> None:
    traced = Traced()
    for path in ("/v1/completions", "/vllm/v1/completions"):
        headers = {"x-request-id": "abc"}
        body = {"prompt": "my diary", "n": 2, "stream": True}
        assert traced.live.client.post(path, json=body, headers=headers).status_code == 200
    first, second = traced.spans()
    found = dict(first.attributes or {})
    latencies = {name: found.pop(name) for name in list(found) if "latency" in name}
    assert found == {
        "http.request.method": "POST",
        "url.path": "/v1/completions",
        "http.response.status_code": 200,
        "gen_ai.response.id": "abc",
        "segue.dialect": "openai",
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "segue",
        "gen_ai.request.model": "tiny",
        "gen_ai.usage.input_tokens": 8,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "gen_ai.response.finish_reasons": ("stop", "stop"),
    }
    queue, token, whole = (
        latencies[f"gen_ai.latency.{name}"]
        for name in ("time_in_queue", "time_to_first_token", "e2e")
    )
    assert isinstance(queue, float)
    assert isinstance(token, float)
    assert isinstance(whole, float)
    assert 0 <= queue <= token <= whole
    assert first.name == "text_completion tiny"
    assert first.kind is SpanKind.SERVER
    assert first.status.status_code is StatusCode.UNSET
    assert first.start_time is not None
    assert first.end_time is not None
    assert first.end_time > first.start_time
    assert (second.attributes or {})["segue.dialect"] == "vllm"
    assert "diary" not in first.to_json()


def test_the_trace_of_a_client_goes_on() -> None:
    traced = Traced()
    sampled, unsampled, broken = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", "00-x-y-01"
    for given in (sampled, unsampled, broken):
        body = {"prompt": "a"}
        traced.live.client.post("/v1/completions", json=body, headers={"traceparent": given})
    ours, own = traced.spans()  # the client did not want the second one
    assert ours.context is not None
    assert ours.parent is not None
    assert f"{ours.context.trace_id:032x}" == TRACE
    assert f"{ours.parent.span_id:016x}" == PARENT
    assert own.parent is None


def test_errors_are_told_and_probes_are_not() -> None:
    def script(request: CompletionRequest) -> Any:
        yield Prompted(0, (1,), 0)
        yield Delta(0, "a", (1,))
        yield Failed("engine_fault", "broken")

    def refuse(request: CompletionRequest) -> Any:
        yield Failed("context_length_exceeded", "too long")

    traced = Traced(script)
    client = traced.live.client
    client.get("/livez")
    client.post("/v1/completions", json={"prompt": "a", "stream": True})
    client.post("/v1/completions", json={"prompt": "a", "n": 0})
    client.get("/no\N{SNOWMAN}where")
    traced.live.follow(refuse)
    assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 400
    broken, refused, lost, too_long = traced.spans()
    assert broken.status.status_code is StatusCode.ERROR
    assert (broken.attributes or {})["error.type"] == "engine_fault"
    assert (refused.attributes or {})["http.response.status_code"] == 400
    assert refused.status.status_code is StatusCode.UNSET
    assert too_long.status.status_code is StatusCode.UNSET, "the engine found a client's mistake"
    assert "error.type" not in (too_long.attributes or {})
    assert lost.name == "GET"  # no name that a client made up
    assert "gen_ai.request.model" not in (lost.attributes or {})


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A collector's end: its address, and what was posted to it."""
    posted: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                raise AssertionError("not asked for")
            posted.append((self.path, body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", posted
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_collector_receives_them(
    receiver: tuple[str, list[tuple[str, bytes]]], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, posted = receiver
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    if by == "variable":
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    with exporting(url if by == "flag" else "") as trace:
        live = Live(speak("one"), trace=trace)
        live.complete()
        live.stop()
    [(path, body)] = posted
    assert path == "/v1/traces"
    [of_resource] = ExportTraceServiceRequest.FromString(body).resource_spans
    said = {each.key: each.value.string_value for each in of_resource.resource.attributes}
    assert said["service.name"] == "mine"
    [span] = of_resource.scope_spans[0].spans
    assert span.name == "text_completion tiny"


def test_nothing_is_traced_unless_asked_for() -> None:
    with exporting("", {}) as trace:
        assert trace is None
    with exporting("http://x", {"OTEL_SDK_DISABLED": "true"}) as trace:
        assert trace is None


def test_without_the_extra_it_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(SetupError, match="segue\\[otel\\]"), exporting("http://x", {}):
        pass
    variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
    with exporting("", {variable: "http://x"}) as trace:  # perhaps not meant for us
        assert trace is None
    assert f"{variable} is set, but {MISSING}" in caplog.text


def test_an_endpoint_is_a_url() -> None:
    with pytest.raises(SetupError, match="--otlp-endpoint must be a URL"), exporting("c:4318", {}):
        pass


@pytest.mark.parametrize("given", ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"])
def test_an_endpoint_is_a_collectors_or_that_of_its_traces(given: str) -> None:
    assert _whole(given) == "http://c:4318/v1/traces"
