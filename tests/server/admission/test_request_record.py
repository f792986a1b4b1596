import logging

import pytest

from segue.dialects import DIALECTS
from tests.server.conftest import Launch, Live, access_lines

OURS = {"x-request-id": "ours"}


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return access_lines(caplog, OURS["x-request-id"])


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


def test_prompts_are_logged_only_when_asked_for(
    launch: Launch, log: pytest.LogCaptureFixture
) -> None:
    live = launch(log_prompts=True)
    live.complete(prompt="my\ndiary\x1b[2J" + "x" * 10_000)
    (line,) = [r.getMessage() for r in log.records if "diary" in r.getMessage()]
    assert line.isprintable()
    assert len(line) < 5000


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
