"""Whatever is saved, restored and erased, and when: answers are what they are without, and no slot is lost."""

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.engine.slots.slot_file import SlotReader
from segue.errors import InvalidField, Unavailable
from segue.runners.fake import FakeRunner, default_capabilities
from segue.types import CompletionRequest, SlotResult
from tests.engine.harness import Bench
from tests.engine.slots.acting import Acting, Told, labelled

TEXTS = ("abcdefgh" * 6, "abcdefgh" * 3 + "and on", "xyz" * 9, "dcba")
# How often each thing happens.
EVENTS = {
    "request": 4,
    "step": 9,
    "run": 2,
    "files": 6,
    "save": 3,
    "restore": 3,
    "erase": 1,
    "look": 1,
    "cancel": 1,
}


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    can_trim=st.booleans(),
    num_slots=st.integers(1, 4),
    num_cells=st.sampled_from([130, 200, 65536]),
    rows_ahead=st.sampled_from([0, 4]),
)
def test_answers_do_not_depend_on_what_is_saved_restored_and_erased(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    can_trim: bool,
    num_slots: int,
    num_cells: int,
    rows_ahead: int,
) -> None:
    limits = replace(
        default_capabilities(num_slots, num_cells, 100, 64, rows_ahead=rows_ahead),
        can_trim=can_trim,
        can_give_back=0 if can_trim else 8,
        draws=rows_ahead > 0,
    )
    folder = tmp_path_factory.mktemp("slots")
    acting = Acting(Bench(FakeRunner(limits)), folder)
    acting.bench.may_go_on = lambda: not acting.turns
    asked: list[CompletionRequest] = []
    all_told: list[Told] = []
    cancelled: set[str] = set()
    draw = random.Random(seed)
    for name in draw.choices([*EVENTS], [*EVENTS.values()], k=50):
        slot, word = draw.randrange(2), draw.choice("ab")
        if name == "request":
            label = draw.choice([slot, slot, None])
            asked.append(labelled(draw.choice(TEXTS), label, max_tokens=6))
            acting.bench.submit(asked[-1])
        elif name == "cancel" and asked:
            acting.bench.scheduler.cancel(asked[-1].request_id)
            cancelled.add(asked[-1].request_id)
        elif name == "step":
            acting.bench.step()
            acting.turn()
        elif name == "run":
            acting.run()
        elif name == "files":
            acting.files()
        elif name in ("save", "restore", "erase", "look"):
            all_told.append(acting.ask(name, slot, word))  # type: ignore[arg-type]
            acting.turn()
    acting.run()
    acting.settle()
    for told in all_told:
        [result] = told
        assert isinstance(result, SlotResult | InvalidField | Unavailable)
        if isinstance(result, SlotResult):
            held = [each for each in result.held if each.num_held]
            assert all(each.num_held >= each.num_prompt or cancelled for each in held)
    for file in folder.iterdir():
        with SlotReader(file) as reader:
            reader.check()
            text = bytes(reader.header.token_ids).decode(errors="replace")
        # A whole prompt at least, or as much of it as was read when it was cancelled.
        assert text.startswith(TEXTS) or (
            cancelled and any(each.startswith(text) for each in TEXTS)
        )
    for request in asked:
        if request.request_id not in cancelled:
            alone = Bench().run(msgspec.structs.replace(request, client_slot=None))[0]
            assert acting.bench.stories[request.request_id].essence == alone.essence
    memory = acting.bench.scheduler._state.memory
    assert not memory._owned
    while memory._evict():
        pass
    assert acting.bench.runner.cells_free == num_cells
