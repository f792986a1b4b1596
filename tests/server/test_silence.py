"""What a stream carries while its answer is slow to begin."""

import pytest

from segue.server import endpoints
from segue.server.feed import FOREVER_S, Feed
from segue.types import Event
from tests.server.conftest import Launch
from tests.support.fakes import Pause, speak


@pytest.mark.parametrize("ping_s", [0.01, 3600])
def test_slow_start_sends_headers_and_pings(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, ping_s: float
) -> None:
    """A proxy must see bytes while a long prompt is read. Not too soon: some clients take comments for text."""
    monkeypatch.setattr(endpoints, "HEADERS_AFTER_S", 0.01)
    pause = Pause()
    live = launch(lambda request: [pause, *speak("one")(request)], ping_interval_s=ping_s)
    with live.client.stream(
        "POST", "/v1/completions", json={"prompt": "a", "stream": True}
    ) as answer:
        lines = answer.iter_lines()
        if ping_s < 1:
            assert [next(lines) for _ in range(3)] == [": keep-alive", "", ": keep-alive"]
        live.release(pause)
        rest = [line for line in lines if line]
    events = [line for line in rest if line.startswith("data: ")]
    assert '"text":"one"' in events[0]
    assert events[-1] == "data: [DONE]"
    assert ping_s < 1 or rest == events


@pytest.mark.parametrize("of_server", [-1, 0.01])
@pytest.mark.parametrize("of_request", [-1, 0, 1])
def test_a_request_sets_how_long_its_stream_may_be_silent(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, of_server: float, of_request: int
) -> None:
    """llama.cpp's field, which counts before the server's setting."""
    waited: list[float] = []
    take = Feed.take

    async def noted(feed: Feed, patience_s: float = FOREVER_S) -> list[Event]:
        waited.append(patience_s)
        return await take(feed, patience_s)

    monkeypatch.setattr(Feed, "take", noted)
    monkeypatch.setattr(endpoints, "HEADERS_AFTER_S", 0.01)
    pause = Pause()
    live = launch(lambda request: [pause, *speak("one")(request)], ping_interval_s=of_server)
    body = {"prompt": "a", "stream": True, "sse_ping_interval": of_request}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        assert "x-segue-ignored" not in answer.headers
        live.release(pause)
        answer.read()
    assert {*waited} == {0.01, of_request if of_request > 0 else FOREVER_S}
