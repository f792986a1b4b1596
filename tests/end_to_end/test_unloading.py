"""Models go and come back while everybody asks for them: an answer or 503, never a crash."""

import threading
import time

import httpx2

from segue.runners.fake import FakeLoader
from tests.support.live import Live

SECONDS = 4.0


async def keep(live: Live, seconds: float) -> None:
    live.fleet.keep("fake", seconds)


def test_unloaded_again_and_again_under_load() -> None:
    """The vocabulary lives and dies with the worker: no call can reach into one that is gone."""
    with Live(FakeLoader()) as live:
        until = time.monotonic() + SECONDS
        statuses: set[int] = set()

        def hammer(path: str, body: dict[str, object]) -> None:
            with httpx2.Client(base_url=live.url, timeout=30) as client:
                while time.monotonic() < until:
                    statuses.add(client.post(path, json=body).status_code)

        asked: list[tuple[str, dict[str, object]]] = [
            ("/v1/completions", {"prompt": "a", "max_tokens": 20}),
            ("/llamacpp/tokenize", {"content": "some text"}),
            ("/vllm/detokenize", {"tokens": [65, 66]}),
            ("/v1/completions", {"prompt": "a", "suffix": "b", "max_tokens": 4}),
        ]
        threads = [threading.Thread(target=hammer, args=each) for each in asked]
        for thread in threads:
            thread.start()
        engines = set()
        while time.monotonic() < until:
            live.ask(keep(live, 0.0))
            engines.add(live.supervisor)
            time.sleep(0.1)
        for thread in threads:
            thread.join(30)
        assert 200 in statuses
        assert statuses <= {200, 503}
        assert len(engines) > 1
        live.ask(keep(live, 1000.0))
        assert live.complete(max_tokens=2).status_code == 200
