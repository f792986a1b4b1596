import threading
from collections.abc import Callable
from queue import SimpleQueue

from msgspec.structs import replace

from segue.bounds import SMALL_PREPARATION
from segue.engine.process.preparation import PreparationQueue, request_size
from segue.types import Infill, Prompt, Sampling, Snippet
from tests.engine.harness import ask
from tests.support.waiting import PATIENCE_S

LARGE = SMALL_PREPARATION + 1


class Rig:
    """PreparationQueue with their threads; each piece of work tells that it began and waits for its gate."""

    def __init__(self) -> None:
        self.queue = PreparationQueue()
        self.begun: SimpleQueue[str] = SimpleQueue()
        for serve in (self.queue.serve_small, self.queue.serve_large, self.queue.serve_large):
            threading.Thread(target=serve, daemon=True).start()

    def put(self, tenant: str, size: int, name: str) -> Callable[[], None]:
        gate = threading.Event()

        def work() -> None:
            self.begun.put(name)
            assert gate.wait(PATIENCE_S)

        self.queue.put(tenant, size, work)
        return gate.set

    def next(self) -> str:
        return self.begun.get(timeout=PATIENCE_S)


def test_a_large_preparation_holds_up_neither_small_ones_nor_other_keys() -> None:
    rig = Rig()
    end_first = rig.put("a", LARGE, "a1")
    assert rig.next() == "a1"
    rig.put("a", LARGE, "a2")()
    rig.put("a", 10, "small")()
    assert rig.next() == "small"
    rig.put("b", LARGE, "b1")()
    assert rig.next() == "b1", "a has its one place: another key is next"
    assert rig.begun.empty()
    end_first()
    assert rig.next() == "a2"


def test_large_ones_take_turns_by_key() -> None:
    rig = Rig()
    ends = [rig.put(key, LARGE, key) for key in ("a", "b")]
    assert {rig.next(), rig.next()} == {"a", "b"}
    for name in ("a2", "a3"):
        rig.put("a", LARGE, name)()
    rig.put("c", LARGE, "c1")()
    assert rig.begun.empty() or rig.next() == "c1"
    for end in ends:
        end()


def test_all_that_is_read_counts() -> None:
    """Also what stands around a gap, and texts whose tokens are looked up: else a large request would hold up the
    small ones."""
    around = Infill(
        suffix=Prompt(("1234",)), snippets=(Snippet("12345678", "12"), Snippet("1", ""))
    )
    assert request_size(ask("12")) == 2
    assert request_size(ask("12", infill=around)) == 2 + 4 + 10 + 1
    assert request_size(ask("12", infill=replace(around, repo="123"))) == 2 + 4 + 10 + 1 + 2 * 3
    biased = Sampling(text_bias=(("123", 1.0), ("4", 2.0)), bad_words=("12",))
    assert request_size(ask("12", sampling=biased, preserved=("12345",))) == 2 + 4 + 2 + 5
    broken = Sampling(dry_multiplier=1.0, dry_sequence_breakers=("12345", "1"))
    assert request_size(ask("12", sampling=broken)) == 2 + 25 + 1  # read from each of its places
