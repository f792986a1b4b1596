"""More asked for than there is: of memory, of turns, of time."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from segue.runners.fake import FakeLoader
from segue.server.admission.keys import Keyring, parse_key
from segue.server.admission.limits import Limits
from segue.server.admission.request_record import RequestRecord
from tests.support.brake import BrakedLoader, braked
from tests.support.live import Live
from tests.support.waiting import PATIENCE_S, wait_until

LONG = {"max_tokens": 600, "logit_bias": {"256": -100}}


def started(*calls: threading.Thread) -> tuple[threading.Thread, ...]:
    for call in calls:
        call.start()
    return calls


def wait_for_waiting(live: Live, number: int) -> None:
    wait_until(lambda: live.stats().waiting == number)


def join(*calls: threading.Thread) -> None:
    for call in calls:
        call.join(PATIENCE_S)


def test_four_clients_that_each_want_most_of_the_memory(tmp_path: Path) -> None:
    """All of them finish, in turns; nobody is told that the context is exceeded."""
    brake = tmp_path / "brake"
    loader = BrakedLoader(num_cells=1000, context_length=900, num_slots=8, brake=str(brake))
    with Live(loader) as live:
        alone = [live.complete(prompt=f"client {i}", **LONG).json()["choices"] for i in range(4)]
        answers: dict[int, object] = {}

        def ask(i: int) -> None:
            answers[i] = live.complete(prompt=f"client {i}", **LONG).json().get("choices")

        with braked(brake):
            crowd = started(*(threading.Thread(target=ask, args=(i,)) for i in range(4)))
            wait_until(lambda: live.stats().running == 4)
        join(*crowd)
        assert [answers[i] for i in range(4)] == alone
        assert live.stats().preemptions > 0


class Keyed(Live):
    """With the keys of Ada and Bob. `done`: whose requests have ended, in the order of their ends."""

    def __init__(self, loader: FakeLoader) -> None:
        self.done: list[str] = []
        keys = Keyring([parse_key("ada:a-secret"), parse_key("bob:b-secret")])
        super().__init__(loader, keys=keys, limits=Limits(max_queue=64), trace=self._ended)

    def _ended(self, record: RequestRecord, dialect: str) -> None:
        self.done.append(record.tenant)


@pytest.fixture
def keyed() -> Iterator[Keyed]:
    with Keyed(FakeLoader(num_slots=16, context_length=2000)) as live:
        yield live


def test_keys_take_turns(tmp_path: Path) -> None:
    """Bob asks once behind Ada's eight, and is not the last to be served."""
    brake = tmp_path / "brake"
    loader = BrakedLoader(num_slots=1, context_length=2000, brake=str(brake))

    def ask(key: str, prompt: str) -> None:
        with httpx2.Client(base_url=live.url, timeout=PATIENCE_S) as client:
            headers = {"x-api-key": f"{key}-secret"}
            client.post("/v1/completions", json={"prompt": prompt, **LONG}, headers=headers)

    with Keyed(loader) as live:
        with braked(brake):
            ada = started(*(threading.Thread(target=ask, args=("a", f"{i}")) for i in range(8)))
            wait_until(lambda: live.stats().waiting == 7)
            bob = started(threading.Thread(target=ask, args=("b", "once")))
            wait_until(lambda: live.stats().waiting == 8)
        join(*ada, *bob)
        assert len(live.done) == 9
        assert live.done.index("bob") <= 3


def test_the_lower_priority_is_served_first(tmp_path: Path) -> None:
    """One runs and five wait. Where priorities are not asked for at the start, none is taken."""
    brake = tmp_path / "brake"
    loader = BrakedLoader(num_slots=1, context_length=2000, brake=str(brake))
    done: list[str] = []

    def ask(name: str, priority: int) -> None:
        with httpx2.Client(base_url=live.url, timeout=PATIENCE_S) as client:
            body = {"prompt": name, "priority": priority, **LONG}
            client.post("/v1/completions", json=body, headers={"x-request-id": name})

    def note(record: RequestRecord, dialect: str) -> None:
        done.append(record.public_id)

    asked = {"first": 9, "b": 5, "c": -5, "d": 5, "e": 0, "f": -6}
    with Live(loader, has_priorities=True, trace=note) as live:
        with braked(brake):
            threads: list[threading.Thread] = []
            for number, (name, priority) in enumerate(asked.items()):
                threads += started(threading.Thread(target=ask, args=(name, priority)))
                wait_until(lambda: live.stats().running == 1)
                wait_for_waiting(live, number)
        join(*threads)
    assert done == ["first", "f", "c", "e", "b", "d"]
    with Live(loader) as live:
        refused = live.complete(priority=1)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "priority")
        assert live.complete(priority=0).status_code == 200


def test_one_keys_cache_cannot_be_felt_with_another(keyed: Keyed) -> None:
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
    loader = FakeLoader(context_length=2_000_000, num_cells=2_000_001)
    asked = {"max_tokens": 1_000_000, "logit_bias": {"256": -100}}
    for limit_s in (0.3, 3.0, 30.0):
        with Live(loader, request_timeout_s=limit_s) as live:
            plain = live.complete(**asked)
            streamed = live.complete(**asked, stream=True)
            live.wait_until_idle()  # the worker hears after its current step that it is to stop
            num_cancelled = live.stats().cancelled
        if num_cancelled == 2 and streamed.status_code == 200:
            break  # else the machine was so busy that the time was over before the first token
    assert plain.status_code == 504
    assert streamed.status_code == 200
    *_, error, done = [line for line in streamed.text.splitlines() if line]
    assert '"code":"timeout"' in error
    assert done == "data: [DONE]"
    assert num_cancelled == 2


def test_refusals_leave_running_streams_alone(tmp_path: Path) -> None:
    """A full queue, knocked at from all sides: what runs finishes, and says the same."""
    brake = tmp_path / "brake"
    loader = BrakedLoader(num_slots=2, context_length=4000, brake=str(brake))
    asked = {"max_tokens": 1500, "logit_bias": {"256": -100}, "cache_prompt": False}
    with Live(loader, limits=Limits(max_queue=2)) as live:
        alone = live.complete(**asked).json()["choices"]
        answers: list[object] = []
        statuses: list[int] = []

        def run() -> None:
            answers.append(live.complete(**asked).json().get("choices"))

        def knock() -> None:
            with httpx2.Client(base_url=live.url, timeout=PATIENCE_S) as client:
                for _ in range(20):
                    body = {"prompt": "knock", "max_tokens": 1}
                    statuses.append(client.post("/v1/completions", json=body).status_code)

        with braked(brake):
            running = started(*(threading.Thread(target=run) for _ in range(2)))
            wait_until(lambda: live.stats().running == 2)
            knocking = started(*(threading.Thread(target=knock) for _ in range(8)))
            wait_until(lambda: 429 in statuses)
        join(*running, *knocking)
        assert answers == [alone, alone]
        assert len(statuses) == 8 * 20
        assert set(statuses) <= {200, 429}
        assert live.client.get("/livez").status_code == 200
