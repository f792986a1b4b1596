"""Models go and come back while everybody asks for them: an answer or 503, never a crash."""

import threading
import time

import httpx2

from segue.engine.process.supervisor import Supervisor
from segue.runners.fake import FakeLoader
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S

SECONDS = 4.0  # at least; and until a model has come back


async def keep(live: Live, seconds: float) -> None:
    live.fleet.keep("fake", seconds)


def test_unloaded_again_and_again_under_load() -> None:
    """The vocabulary lives and dies with the worker: no call can reach into one that is gone."""
    with Live(FakeLoader()) as live:
        begun, is_enough = time.monotonic(), threading.Event()
        statuses: set[int] = set()

        def hammer(path: str, body: dict[str, object]) -> None:
            with httpx2.Client(base_url=live.url, timeout=PATIENCE_S) as client:
                while not is_enough.is_set():
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
        engines: set[Supervisor] = set()
        while (age_s := time.monotonic() - begun) < SECONDS or len(engines) < 2:
            if age_s > PATIENCE_S:
                break
            live.ask(keep(live, 0.0))
            engines.add(live.supervisor)
            time.sleep(0.1)
        is_enough.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert 200 in statuses
        assert statuses <= {200, 503}
        assert len(engines) > 1
        live.ask(keep(live, 1000.0))
        assert live.complete(max_tokens=2).status_code == 200
