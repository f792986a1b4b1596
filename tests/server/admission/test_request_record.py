import contextlib
import json
import logging
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from segue.dialects import DIALECTS
from segue.errors import InvalidField
from segue.logs import JsonFormatter
from segue.server.admission.request_record import RequestRecord
from segue.types import CompletionRequest, Delta, Event, Failed, Prompted
from tests.server.conftest import Launch, Live, access_lines, read_until
from tests.support.fakes import Pause, speak
from tests.support.waiting import PATIENCE_S, wait_until

OURS = {"x-request-id": "ours"}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return access_lines(caplog, OURS["x-request-id"])


def lines_of(live: Live, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Of this server alone: another may have its line about a client that left only now."""
    written = [each for each in caplog.records if each.threadName == live.loop_thread]
    return [each.getMessage() for each in written if each.name == "segue.access"]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_one_line_a_request_without_its_content(live: Live, log: pytest.LogCaptureFixture) -> None:
    body = {"prompt": "my diary", "stream": True, "user": "me"}
    answer = live.client.post("/v1/completions", json=body, headers=OURS)
    (line,) = lines(log)  # it is there before the end of the answer is sent
    assert line.startswith("ours POST '/v1/completions' 200 engine_id=")
    assert "model=tiny prompt=8 completion=2 first_ms=" in line
    assert "total_ms=" in line
    for secret in ("diary", "one two", "me "):
        assert secret not in log.text
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/%1b%5b2J", "/a%0d%0aINFO%20forged", "/" + "x" * 5000])
def test_a_path_stays_one_short_line(live: Live, log: pytest.LogCaptureFixture, path: str) -> None:
    live.client.get(path, headers=OURS)
    (line,) = lines(log)
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 400


def test_refusals_have_their_line_too(launch: Launch, log: pytest.LogCaptureFixture) -> None:
    live = launch(max_body_bytes=1000)
    live.client.headers.update(OURS)
    live.complete(prompt="x" * 2000)
    live.complete(n=0)
    assert [line.split()[3] for line in lines(log)] == ["413", "400"]


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (b"GET /v1/" + b"x" * 9000 + b"?my=diary", "GET '/v1/xx"),
        (b"GET /a?my=diary HTTP/1.1\r\na: " + b"x" * 70_000 + b"\r\n\r\n", "GET '/a' 431"),
        (b"GET /a HTTP/2.0\r\n\r\n", "GET '/a' 505 error=http_version_not_supported"),
        (b"GET /\x1b[2J HTTP/1.1\r\n\r\n", "- '-' 400 error=malformed_http"),
        (b"my diary\r\n\r\n", "- '-' 400 error=malformed_http"),
        (b"\r\n" * 70_000, "- '-' 431 error=head_too_large"),
    ],
)
def test_what_never_became_a_request_has_its_line_too(
    launch: Launch, log: pytest.LogCaptureFixture, sent: bytes, told: str
) -> None:
    live = launch(max_body_bytes=1000)
    with live.connect() as client, contextlib.suppress(ConnectionError):
        client.sendall(sent)
        while client.recv(65536):
            pass
    wait_until(lambda: lines_of(live, log))
    (line,) = lines_of(live, log)
    assert line.partition(" ")[2].startswith(told)
    assert line.isprintable()
    assert "diary" not in log.text


def test_why_a_request_was_refused_is_told_but_not_with_its_words(
    launch: Launch, log: pytest.LogCaptureFixture
) -> None:
    live = launch(max_body_bytes=1000)
    live.client.headers.update(OURS)
    live.complete(prompt="x" * 2000)
    live.complete(temperature="my diary")
    live.client.post("/v1/completions", content="my diary")
    live.client.post("/tokenize", json={"prompt": {"my diary": 1}})
    live.client.get("/my-page")
    live.client.put("/v1/completions", json={})
    told = [line.partition(" engine_id=")[2].split()[1:-1] for line in lines(log)]
    assert told == [
        ["error=body_too_large"],
        ["error=invalid_value", "field=temperature"],
        ["error=invalid_json"],
        ["error=invalid_value", "field=prompt"],
        ["error=not_found"],
        ["error=method_not_allowed"],
    ]
    assert "diary" not in log.text


def test_a_field_that_the_client_made_up_is_not_told() -> None:
    record = RequestRecord({"method": "POST", "path": "/", "headers": []})
    record.refuse(InvalidField("no", "a b=c"))
    assert (record.failure, record.field) == ("invalid_value", "")


def test_json_has_each_fact_by_its_name(live: Live, log: pytest.LogCaptureFixture) -> None:
    live.client.post("/v1/completions", json={"prompt": "ab"}, headers=OURS)
    live.client.post("/v1/completions", json={"prompt": "ab", "n": 0}, headers=OURS)
    written = [json.loads(JsonFormatter(process=None).format(record)) for record in log.records]
    answered, refused = [line for line in written if line.get("request_id") == "ours"]
    expected = {"method": "POST", "path": "/v1/completions", "logger": "segue.access"}
    assert answered.items() >= {**expected, "status": 200, "completion_tokens": 2}.items()
    assert answered.items() >= {"model": "tiny", "prompt_tokens": 2}.items()
    assert 0 <= answered["first_ms"] <= answered["total_ms"]
    assert refused.items() >= {**expected, "status": 400, "field": "n"}.items()
    assert "error=invalid_value field=n" in refused["message"]


def test_prompts_are_logged_only_when_asked_for(
    launch: Launch, log: pytest.LogCaptureFixture
) -> None:
    live = launch(log_prompts=True)
    live.complete(prompt="my\ndiary\x1b[2J" + "x" * 10_000)
    (line,) = [r.getMessage() for r in log.records if "diary" in r.getMessage()]
    assert line.isprintable()
    assert len(line) < 5000


def counted(live: Live) -> dict[str, float]:
    """Answers by status, and how many requests are in each histogram; without this one."""
    return {
        sample.labels.get("status", sample.name): sample.value
        for family in text_string_to_metric_families(live.client.get("/metrics").text)
        for sample in family.samples
        if sample.name == "segue_answers_total" or sample.name.endswith("_seconds_count")
    }


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_left_is_told_apart_from_one_that_was_answered(
    launch: Launch, log: pytest.LogCaptureFixture, streamed: bool
) -> None:
    live = launch(lambda _: [Prompted(0, (1,), 0), Delta(0, "one", (1,)), Pause()], drain_s=0.0)
    body = b'{"prompt":"a","stream":%b}' % (b"true" if streamed else b"false")
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-request-id: ours\r\n"
    with live.connect() as client:
        client.sendall(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        if streamed:
            assert b"200 OK" in read_until(client, b'"one"')
        else:
            assert live.engine.started.wait(PATIENCE_S)
    wait_until(lambda: lines(log) != [])
    assert [line.split()[3] for line in lines(log)] == ["499"]
    assert counted(live)["499"] == 1


@pytest.mark.parametrize(
    ("sent", "code", "has_line"),
    [
        (b"GARBAGE\r\n\r\n", "400", False),
        (b"GET / HTTP/1.1\r\na: %b\r\n\r\n" % (b"x" * (1 << 17)), "431", False),
        (
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-request-id: ours\r\n"
            b"transfer-encoding: chunked\r\n\r\nno length\r\n",
            "400",
            True,
        ),
    ],
    ids=["no request", "a large head", "a body that cannot be read"],
)
def test_what_the_connection_answers_by_itself_is_counted_as_it_was_sent(
    launch: Launch, log: pytest.LogCaptureFixture, sent: bytes, code: str, has_line: bool
) -> None:
    live = launch(drain_s=0.0)
    with live.connect() as client:
        with contextlib.suppress(
            ConnectionError
        ):  # the rest, where its time was up before it was sent
            client.sendall(sent)
        assert client.makefile("rb").readline().split()[1].decode() == code
    live.client.get("/livez")  # whatever comes after the answer has come
    assert counted(live)[code] == 1
    assert "499" not in counted(live)
    live.stop()
    assert [line.split()[3] for line in lines(log)] == ([code] if has_line else [])


@pytest.mark.parametrize(
    ("code", "status"), [("engine_died", "503"), ("timeout", "504"), ("new", "500")]
)
def test_a_stream_that_failed_is_counted_by_its_error(
    launch: Launch, log: pytest.LogCaptureFixture, code: str, status: str
) -> None:
    """Its status was sent long before: by that alone, a server whose model dies again and again looks well."""
    pause = Pause()
    events = [Prompted(0, (1,), 0), Delta(0, "one", (1,)), pause, Failed(code, "broken")]
    live = launch(lambda _: events, drain_s=0.0)
    body = {"prompt": "a", "stream": True}
    with live.client.stream("POST", "/v1/completions", json=body, headers=OURS) as answer:
        parts = answer.iter_lines()
        assert '"one"' in next(parts)
        live.release(pause)
        assert "broken" in "".join(parts)
    (line,) = lines(log)
    assert line.split()[3] == "200"
    assert f"error={code} " in line
    found = counted(live)
    assert found[status] == 1
    assert "200" not in found


def test_an_error_that_was_sent_is_counted_as_its_dialect_sent_it(launch: Launch) -> None:
    live = launch(lambda _: [Failed("rate_limit_exceeded", "full")], dialects=DIALECTS)
    body = {"model": "tiny", "prompt": "a", "stream": False}
    assert live.client.post("/ollama/api/generate", json=body).status_code == 503
    found = counted(live)
    assert found["503"] == 1
    assert "429" not in found


def test_times_are_those_of_requests_that_had_a_token_and_of_requests_that_ran(
    launch: Launch, log: pytest.LogCaptureFixture
) -> None:
    def script(request: CompletionRequest) -> Iterable[Event | Pause | Exception]:
        too_long = Failed("context_length_exceeded", "too long")
        return [too_long] if request.max_tokens == 9 else speak("one")(request)

    live = launch(script, drain_s=0.0)
    assert [live.complete(max_tokens=n).status_code for n in (0, 9, 2)] == [200, 400, 200]
    found = counted(live)
    assert found["segue_time_to_first_token_seconds_count"] == 1
    assert found["segue_request_seconds_count"] == 2
    live.stop()
    (refused,) = [line for line in log.messages if "context_length_exceeded" in line]
    assert "first_ms" not in refused


@pytest.mark.parametrize("streamed", [False, True])
def test_times_between_tokens_are_those_of_the_engine(launch: Launch, streamed: bool) -> None:
    """Whole or streamed, however long the events took to come here; a stream that breaks off counts what it had."""
    said = [Delta(choice, "a", (1,), None, n * 0.5) for n in range(3) for choice in (0, 1)]
    events = [Prompted(0, (1,), 0), *said, Failed("timeout", "too slow")]
    live = launch(lambda _: events, drain_s=0.0)
    live.complete(n=2, stream=streamed)
    name = "segue_inter_token_latency_seconds"
    figures = {
        (sample.name, sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(live.client.get("/metrics").text)
        for sample in family.samples
    }
    assert figures[f"{name}_count", None] == 4
    assert figures[f"{name}_sum", None] == 2.0
    assert [figures[f"{name}_bucket", end] for end in ("0.25", "0.5")] == [0, 4]


PROBES = ["/health", "/livez", "/readyz", "/metrics", "/llamacpp/health", "/vllm/ping"]


def test_probes_are_logged_at_debug_while_all_is_well(
    launch: Launch, log: pytest.LogCaptureFixture
) -> None:
    live = launch(dialects=DIALECTS)
    live.client.headers.update(OURS)
    statuses = {path: live.client.get(path).status_code for path in PROBES}
    live.complete()
    live.stop()  # what it logs is all there
    assert [line.split()[2] for line in lines(log)] == ["'/v1/completions'"]
    log.clear()
    log.set_level(logging.DEBUG)
    live = launch(dialects=DIALECTS)
    live.client.headers.update(OURS)
    for path in PROBES:
        live.client.get(path)
    live.stop()
    assert set(statuses.values()) == {200}
    assert [line.split()[2] for line in lines(log)] == [repr(path) for path in PROBES]


def test_a_probe_that_fails_is_logged(launch: Launch, log: pytest.LogCaptureFixture) -> None:
    live = launch(drain_s=0.0)
    live.client.headers.update(OURS)
    live.models.is_up, live.models.is_starting = False, True
    assert live.client.get("/readyz").status_code == 503
    live.stop()
    assert [line.split()[2:4] for line in lines(log)] == [["'/readyz'", "503"]]
