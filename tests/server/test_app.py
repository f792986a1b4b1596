from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from segue import __version__
from segue.dialects import DIALECTS
from segue.dialects.base import Companion, Reply, Service
from segue.dialects.fields.kinds import Text
from segue.dialects.fields.table import Field, Table
from segue.dialects.openai import OPENAI
from segue.dialects.vllm import VLLM
from segue.errors import SegueError
from segue.server.app import create_app
from segue.types import Delta, Done, Event, Failed, Finished, Prompted, Usage
from tests.server.conftest import TWO_WORDS, Launch, Live
from tests.support.fakes import INFO, OneModel


def test_models(live: Live) -> None:
    card = {"id": "tiny", "object": "model", "owned_by": "segue", "max_model_len": 2048}
    (listed,) = live.client.get("/v1/models").json()["data"]
    assert listed | card == listed
    assert live.client.get("/v1/models/tiny").json() == listed
    missing = live.client.get("/v1/models/a/b")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_health_follows_the_default_model(live: Live) -> None:
    assert live.client.get("/health").json() == {
        "status": "ok",
        "model": "tiny",
        "runner": INFO.runner,
        "deterministic": True,
        "system_fingerprint": INFO.fingerprint,
    }
    live.engine.is_restarting = True
    restarting = live.client.get("/health")
    assert restarting.status_code == 503
    assert restarting.headers["retry-after"] == "2"
    live.models.is_up, live.models.is_starting = False, True
    loading = live.client.get("/health")
    assert loading.status_code == 503
    assert int(loading.headers["retry-after"]) > 0
    assert loading.json() == {"status": "loading", "model": "tiny"}
    assert live.client.get("/livez").status_code == 200
    assert live.client.head("/livez").status_code == 200


def test_ready_is_whether_a_request_would_be_let_in(live: Live) -> None:
    assert live.client.get("/readyz").json() == {"status": "ready"}
    live.engine.is_restarting = True
    answer = live.client.get("/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "restarting"})
    live.models.is_up = False
    assert live.client.get("/readyz").status_code == 200, "an idle model loads when it is asked for"
    live.models.is_starting = True
    assert live.client.get("/readyz").json() == {"status": "loading"}


def test_version(live: Live) -> None:
    assert live.client.get("/version").json() == {"version": __version__}


@pytest.mark.parametrize("path", ["/v1/completions", "/openai/v1/completions"])
def test_each_dialect_at_its_prefix_and_one_at_the_root(live: Live, path: str) -> None:
    assert live.client.post(path, json={"prompt": "a"}).json()["choices"][0]["text"] == "one two"


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/nothing", 404, None),
        ("POST", "/nothing", 404, None),
        ("GET", "/openai/nothing", 404, None),
        ("POST", "/v1/completions/", 404, None),
        ("GET", "/v1/completions", 405, "POST"),
        ("DELETE", "/v1/completions", 405, "POST"),
        ("OPTIONS", "/v1/completions", 405, "POST"),
        ("POST", "/v1/models", 405, "GET, HEAD"),
        ("GET", "/%1b[2J", 404, None),
    ],
)
def test_unknown_paths_and_methods(
    live: Live, method: str, path: str, status: int, allow: str | None
) -> None:
    answer = live.client.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == status
    assert set(answer.headers.get("allow", "").split(", ")) == set((allow or "").split(", "))
    error = answer.json()["error"]
    assert error["type"] in ("not_found_error", "invalid_request_error")
    assert "\x1b" not in error["message"]


def test_every_method_of_a_path_is_allowed(launch: Launch) -> None:
    """Each is a route of its own, and the first one named its own only."""
    live = launch(dialects=DIALECTS)
    for method in ("PUT", "DELETE", "OPTIONS"):
        answer = live.client.request(method, "/lora-adapters")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")


def test_an_idle_model_is_healthy(live: Live) -> None:
    """Unloaded for want of use, it comes back when asked for; a balancer must not cut it off."""
    live.models.is_up = False
    answer = live.client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "idle", "model": "tiny"}


def test_which_model_is_meant(live: Live) -> None:
    assert live.complete(model="gpt-3.5-turbo-instruct").json()["model"] == "tiny"
    assert live.engine.requests[0].model == "tiny"
    unknown = live.complete(model="unknown")
    assert unknown.status_code == 404
    assert unknown.json()["error"]["param"] == "model"


async def count(service: Service, values: Mapping[str, Any]) -> Reply:
    tokens = await service.tokenize("", values["text"], add_special=True, parse_special=True)
    return Reply({"tokens": tokens, "pieces": len(await service.pieces("", tokens))})


async def break_down(service: Service, _: Mapping[str, Any]) -> Reply:
    raise ZeroDivisionError("secret")


def plain_error(error: SegueError) -> Reply:
    return Reply(f"{error.status} {error.message}", error.status)


TEXT = Table((Field("content", Text(99), "What to count.", "text", required=True),))
# A second system: its own paths, defaults, framing and errors, made of nothing but rows.
OTHER = replace(
    OPENAI,
    name="other",
    operations=(
        replace(
            OPENAI.operations[0],
            path="/complete",
            table=OPENAI.operations[0].table.with_defaults(stream=True),
            framing="ndjson",
            is_native=True,
        ),
    ),
    companions=(
        Companion("POST", "/count", "Count tokens.", count, TEXT, is_native=True),
        Companion("GET", "/broken", "Fails.", break_down),
    ),
    error=plain_error,
    json_only=False,
)


@pytest.fixture
def both(launch: Launch) -> httpx2.Client:
    return launch(TWO_WORDS, dialects=[OPENAI, OTHER]).client


def test_a_second_dialect_is_only_rows(both: httpx2.Client) -> None:
    for path in ("/complete", "/other/complete"):
        answer = both.post(path, json={"prompt": "a"})
        assert answer.headers["content-type"] == "application/x-ndjson"
        assert len(answer.text.splitlines()) == 3
        assert "[DONE]" not in answer.text
    for path in ("/count", "/other/count"):
        assert both.post(path, json={"content": "ab"}).json() == {"tokens": [97, 98], "pieces": 2}
    assert both.post("/count", json={}).text == "400 content is required"


def test_errors_speak_the_dialect_of_their_path(both: httpx2.Client) -> None:
    assert both.get("/other/nothing").text.startswith("404 ")
    assert both.get("/complete").text.startswith("405 ")
    assert both.post("/other/complete", json={}).text == "400 prompt is required"
    assert both.get("/nothing").json()["error"]["code"] == "not_found"


def test_a_dialect_may_take_any_content_type_but_not_from_a_web_page(both: httpx2.Client) -> None:
    """curl -d sends a form's type; so does a page of another origin, which also names itself."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    body = b'{"prompt":"a"}'
    assert both.post("/complete", content=body, headers=form).status_code == 200
    page = form | {"origin": "https://evil.example"}
    assert both.post("/complete", content=body, headers=page).text.startswith("403 ")


def test_bug_in_a_companion_is_500_without_details(both: httpx2.Client) -> None:
    answer = both.get("/other/broken")
    assert answer.status_code == 500
    assert answer.text == "500 The server failed on this request."


def test_root_dialect_can_be_chosen() -> None:
    app = create_app(OneModel(), [OPENAI, OTHER], root="other")
    paths = [route.path for route in app.routes if isinstance(route, Route)]
    assert "/complete" in paths
    assert "/openai/v1/completions" in paths
    assert "/v1/completions" not in paths
    assert len(paths) == len(set(paths))


def test_metrics_of_requests_and_engines(launch: Launch) -> None:
    live = launch()
    live.client.get("/livez")
    live.models.is_up = False
    idle = live.client.get("/metrics")
    assert idle.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'segue_answers_total{status="200"}' in idle.text
    assert "segue_running{" not in idle.text
    live.models.is_up = True
    assert 'segue_running{model="tiny"} 0.0' in live.client.get("/metrics").text
    live.engine.is_restarting = True
    assert "segue_running{" not in live.client.get("/metrics").text


def test_a_model_that_restarts_is_left_out_of_vllms_figures(launch: Launch) -> None:
    """A scrape that fails would look like a server that is down."""
    live = launch(dialects=[OPENAI, VLLM])
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"}' in metrics_of(live)
    live.engine.is_restarting = True
    assert "model_name" not in metrics_of(live)
    assert live.client.get("/vllm/load").json() == {"server_load": 0}


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ((Finished(0, "stop", "eos", 1), Done(Usage(1, 1, 0), 5)), "stop"),
        ((Failed("engine_fault", "it broke"),), "error"),
    ],
    ids=["stop", "error"],
)
def test_vllms_figures_tell_why_choices_ended(
    launch: Launch, last: Sequence[Event], told: str
) -> None:
    said = [Prompted(0, (1,), 0), Delta(0, "a", (1,)), *last]
    live = launch(lambda _: said, dialects=[OPENAI, VLLM])
    live.complete(n=1)
    rows = [line for line in metrics_of(live).splitlines() if "finished_reason" in line]
    counted = [line.rpartition("=")[2] for line in rows if not line.endswith(" 0")]
    assert counted == [f'"{told}"}} 1']
    assert 'vllm:e2e_request_latency_seconds_count{engine="0",model_name="tiny"} 1' in metrics_of(
        live
    )


def metrics_of(live: Live) -> str:
    answer = live.client.get("/vllm/metrics")
    assert answer.status_code == 200
    return str(answer.text)
