"""More asked for than there is: of memory, of turns, of time."""

import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from segue.runners.fake import FakeLoader
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from tests.support.live import Live

LONG = {"max_tokens": 600, "logit_bias": {"256": -100}}


def at_once(*calls: threading.Thread) -> None:
    for call in calls:
        call.start()
    for call in calls:
        call.join(60)


def test_four_clients_that_each_want_most_of_the_memory() -> None:
    """All of them finish, in turns; nobody is told that the context is exceeded."""
    loader = FakeLoader(num_cells=1000, context_length=900, num_slots=8)
    with Live(loader) as live:
        alone = [live.complete(prompt=f"client {i}", **LONG).json()["choices"] for i in range(4)]
        answers: dict[int, object] = {}

        def ask(i: int) -> None:
            answers[i] = live.complete(prompt=f"client {i}", **LONG).json().get("choices")

        at_once(*(threading.Thread(target=ask, args=(i,)) for i in range(4)))
        assert [answers[i] for i in range(4)] == alone
        assert live.stats().preemptions > 0


@pytest.fixture
def keyed(request: pytest.FixtureRequest) -> Iterator[Live]:
    keys = Keyring([parse_key("ada:a-secret"), parse_key("bob:b-secret")])
    loader = FakeLoader(num_slots=request.param, context_length=2000)
    with Live(loader, keys=keys, limits=Limits(max_queue=64)) as live:
        yield live


@pytest.mark.parametrize("keyed", [1], indirect=True)
def test_keys_take_turns(keyed: Live) -> None:
    """Bob asks once behind Ada's eight, and is not the last to be served."""
    done: list[str] = []

    def ask(key: str, prompt: str) -> None:
        with httpx2.Client(base_url=keyed.url, timeout=60) as client:
            headers = {"x-api-key": f"{key}-secret"}
            client.post("/v1/completions", json={"prompt": prompt, **LONG}, headers=headers)
            done.append(key)

    crowd = [threading.Thread(target=ask, args=("a", f"{i}")) for i in range(8)]
    for thread in crowd:
        thread.start()
    while keyed.stats().waiting < 6:
        time.sleep(0.005)
    num_before = len(done)
    at_once(threading.Thread(target=ask, args=("b", "once")))
    for thread in crowd:
        thread.join(60)
    assert done.index("b") - num_before <= 3


@pytest.mark.parametrize("keyed", [16], indirect=True)
def test_one_keys_cache_cannot_be_felt_with_another(keyed: Live) -> None:
    """How soon an answer comes must not tell Bob what Ada has asked."""

    def num_cached(key: str, **fields: object) -> int:
        body = {"prompt": "a secret thought, " * 20, "max_tokens": 1, **fields}
        headers = {"x-api-key": f"{key}-secret"}
        answer = keyed.client.post("/v1/completions", json=body, headers=headers).json()
        return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    assert num_cached("a") == 0
    assert num_cached("a") > 300
    assert num_cached("b") == 0
    for salt in ("ada", "key:ada"):
        assert num_cached("b", cache_salt=salt) == 0
    assert num_cached("a", cache_salt="ada") > 300, "a salt that both know is shared"


def test_a_request_past_its_time_is_ended_and_told() -> None:
    loader = FakeLoader(context_length=200_000, num_cells=200_001)
    with Live(loader, request_timeout_s=0.3) as live:
        plain = live.complete(max_tokens=100_000, logit_bias={"256": -100})
        assert plain.status_code == 504
        streamed = live.complete(max_tokens=100_000, logit_bias={"256": -100}, stream=True)
        assert streamed.status_code == 200
        *_, error, done = [line for line in streamed.text.splitlines() if line]
        assert '"code":"timeout"' in error
        assert done == "data: [DONE]"
        # The client is told at once; the worker hears of it after its current step.
        while live.stats().running:
            pass
        assert live.stats().cancelled == 2


def test_refusals_leave_running_streams_alone() -> None:
    """A full queue, knocked at from all sides: what runs finishes, and says the same."""
    loader = FakeLoader(num_slots=2, context_length=4000)
    asked = {"max_tokens": 1500, "logit_bias": {"256": -100}, "cache_prompt": False}
    with Live(loader, limits=Limits(max_queue=2)) as live:
        alone = live.complete(**asked).json()["choices"]
        answers: list[object] = []
        running = [
            threading.Thread(
                target=lambda: answers.append(live.complete(**asked).json().get("choices"))
            )
            for _ in range(2)
        ]
        for thread in running:
            thread.start()
        while live.stats().running < 2:
            time.sleep(0.002)
        statuses = []

        def knock() -> None:
            with httpx2.Client(base_url=live.url, timeout=30) as client:
                for _ in range(20):
                    body = {"prompt": "knock", "max_tokens": 1}
                    statuses.append(client.post("/v1/completions", json=body).status_code)

        at_once(*(threading.Thread(target=knock) for _ in range(8)))
        for thread in running:
            thread.join(60)
        assert answers == [alone, alone]
        assert set(statuses) <= {200, 429}
        assert 429 in statuses
        assert live.client.get("/livez").status_code == 200
