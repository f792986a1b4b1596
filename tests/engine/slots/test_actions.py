"""Slots that are saved, restored and erased: answers stay what they are, and a restored prompt is not read again."""

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import ANY

import pytest
from msgspec.structs import replace

from segue.engine.scheduling.client_slots import ClientSlots
from segue.errors import EngineFault, InvalidField, OutOfSpace, Overloaded, Unavailable, Unsupported
from segue.types import HeldText, SlotResult
from tests.engine.harness import ask
from tests.engine.slots.acting import PROMPT, Acting, bench, labelled


def text_after(acting: Acting) -> str:
    """All that slot 0 was given and has said."""
    [told] = acting.bench.run(labelled())
    return PROMPT + told.texts[0]


@pytest.mark.parametrize("can_trim", [True, False])
def test_a_restored_text_goes_on_where_it_was(tmp_path: Path, can_trim: bool) -> None:
    first, second = (Acting(bench(can_trim), tmp_path) for _ in range(2))
    text = text_after(first)
    saved = first.done("save")
    assert saved.num_bytes == (tmp_path / "a.bin").stat().st_size
    # The last token drawn was never computed.
    assert saved.num_tokens == len(text.encode("utf-8", "replace")) - 1
    restored = second.done("restore", 3)
    assert (restored.num_tokens, restored.num_bytes) == (saved.num_tokens, saved.num_bytes)
    went_on = [acting.bench.run(labelled(text + " and"))[0] for acting in (first, second)]
    fresh = bench(can_trim).run(labelled(text + " and"))[0]
    assert [each.essence for each in went_on] == [fresh.essence] * 2
    assert went_on[1].prompted[0].num_cached == saved.num_tokens
    assert fresh.prompted[0].num_cached == 0
    assert second.done("save", 3, "b.bin").num_tokens == saved.num_tokens


def test_what_a_slot_holds_is_its_last_text(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled("one"), labelled("three", slot=1))
    acting.bench.run(labelled("nineteen"), ask("another", max_tokens=2))
    assert acting.done("save").num_tokens == len("nineteen") + 7
    assert acting.done("save", 1).num_tokens == len("three") + 7
    beyond = acting.bench.capabilities.num_slots
    assert acting.done("save", beyond + 1).num_tokens == len("three") + 7


def test_slot_0_has_what_requests_without_a_number_leave_until_one_names_it(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled("nineteen", slot=None))
    assert acting.done("save").num_tokens == len("nineteen") + 7
    with pytest.raises(InvalidField, match="slot 1 holds nothing"):
        acting.done("save", 1)
    acting.bench.run(labelled("one"))
    acting.bench.run(labelled("another", slot=None))
    assert acting.done("save").num_tokens == len("one") + 7
    assert acting.done("erase").num_tokens == len("one") + 7
    assert acting.done("erase").num_tokens == 0
    assert acting.bench.run(labelled("another"))[0].prompted[0].num_cached == len("another") - 1


def test_slot_0_that_was_named_has_no_other_text_when_its_own_is_gone(tmp_path: Path) -> None:
    """What others had left was saved over the file of its prompt."""
    acting = Acting(bench(num_slots=2), tmp_path)
    acting.bench.run(labelled("one"))
    acting.bench.run(labelled("another", slot=None), labelled("three", slot=1))
    with pytest.raises(InvalidField, match="slot 0 holds nothing"):
        acting.done("save")
    acting.bench.run(labelled("nineteen", slot=None))
    acting.bench.run(labelled("private", use_cache=False))
    with pytest.raises(InvalidField, match="slot 0 holds nothing"):
        acting.done("save")


def test_a_look_tells_a_key_what_its_slots_hold(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=3), tmp_path)
    assert acting.done("look").held == ()
    acting.bench.run(labelled("nineteen", slot=None))
    acting.bench.run(labelled("three", slot=2))
    assert acting.done("look").held == (HeldText(0, 8, 15), HeldText(2, 5, 12))
    acting.bench.run(labelled("one"), labelled("four", slot=4, tenant="ann", cache_salt="ann"))
    assert acting.done("look", tenant="ann").held == (HeldText(1, 4, 11),)
    held = {each.slot: each for each in acting.done("look").held}
    assert held[0] == HeldText(0, 3, 10)
    assert held[0].num_held == acting.done("save").num_tokens


def test_looks_of_one_key_between_two_steps_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each compares what many slots hold, and all streams wait meanwhile: a client may ask as often as it likes."""
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled())
    looked: list[str] = []
    held = ClientSlots.held

    def noting(self: ClientSlots, tenant: str) -> Iterator[HeldText]:
        looked.append(tenant)
        return held(self, tenant)

    monkeypatch.setattr(ClientSlots, "held", noting)
    told = [acting.ask("look", tenant=tenant) for tenant in ("", "ann", "", "")]
    acting.settle()
    assert looked == ["", "ann"]
    assert told[0] == told[2] == told[3] != told[1]
    assert acting.done("look") == told[0][0]


def test_a_look_tells_what_is_in_memory_no_more(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=2), tmp_path)
    acting.bench.run(labelled("three", slot=1))
    acting.bench.run(ask("of others", max_tokens=3))
    acting.bench.run(ask("and of others", max_tokens=3))
    assert acting.done("look").held == (HeldText(0, 13, 15), HeldText(1, 5, 0))
    with pytest.raises(InvalidField, match="holds nothing any more"):
        acting.done("save", 1)


@pytest.mark.parametrize("can_trim", [True, False])
def test_an_erased_prompt_is_read_again(tmp_path: Path, can_trim: bool) -> None:
    acting = Acting(bench(can_trim), tmp_path)
    text = text_after(acting)
    acting.bench.run(labelled(text + "!"), ask("something else", max_tokens=3))
    assert acting.done("erase").num_tokens == len(text + "!") + 7
    assert acting.done("erase").num_tokens == 0
    assert acting.bench.run(labelled(text))[0].prompted[0].num_cached == 0
    other = acting.bench.run(ask("something else", max_tokens=3))[0]
    assert other.prompted[0].num_cached == (len("something else") - 1 if can_trim else 0)


def test_a_slot_that_holds_nothing_says_what_would_fill_it(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    with pytest.raises(InvalidField, match='"id_slot": 2 that used the cache'):
        acting.done("save", 2)
    acting.bench.run(labelled())
    acting.bench.run(labelled(use_cache=False))
    with pytest.raises(InvalidField, match="holds nothing"):
        acting.done("save")
    assert [*tmp_path.iterdir()] == []


def test_a_text_whose_place_was_needed_is_saved_no_more(tmp_path: Path) -> None:
    acting = Acting(bench(can_trim=False, num_slots=2), tmp_path)
    acting.bench.run(labelled())
    for number in range(4):
        acting.bench.run(ask(f"{number} of others", max_tokens=2))
    with pytest.raises(InvalidField, match="nothing any more"):
        acting.done("save")


def test_a_beginning_that_others_share_is_not_written_over_a_prompt(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=2), tmp_path)
    acting.bench.run(labelled(slot=1))
    saved = acting.done("save", 1)
    for prompt in ("x of others", "y of others", f"{PROMPT[:9]} of others"):
        acting.bench.run(ask(prompt, max_tokens=2))
    with pytest.raises(InvalidField, match="nothing any more"):
        acting.done("save", 1)
    assert acting.done("restore", 1) == replace(saved, seconds=ANY)


def test_what_is_saved_stays_while_it_is_written(tmp_path: Path) -> None:
    """Others come meanwhile and want all memory there is; a slot that is being written is not theirs."""
    acting = Acting(bench(num_slots=3), tmp_path)
    acting.bench.run(labelled())
    told = acting.ask("save")
    acting.turn()
    for number in range(9):
        acting.bench.run(ask(f"{number} of others", max_tokens=2))
        acting.bench.scheduler.check()
    assert not told
    acting.settle()
    [saved] = told
    assert isinstance(saved, SlotResult)
    other = Acting(bench(), tmp_path)
    other.done("restore")
    assert other.bench.run(labelled())[0].prompted[0].num_cached == len(PROMPT) - 1


def test_one_slot_is_enough(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=1), tmp_path)
    text = text_after(acting)
    acting.done("save")
    acting.bench.run(ask("of others", max_tokens=2))
    acting.done("restore")
    assert acting.bench.run(labelled(text))[0].prompted[0].num_cached == len(text) - 1


def test_an_action_waits_for_the_requests_of_its_slot(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.submit(labelled(max_tokens=20))
    acting.bench.step()
    mine, others = acting.ask("save"), acting.ask("erase", 1)
    acting.settle()
    assert not mine
    assert others == [SlotResult(num_tokens=0)]
    while acting.bench.step():
        acting.turn()
    acting.settle()
    [saved] = mine
    assert isinstance(saved, SlotResult)
    assert saved.num_tokens == len(PROMPT) + 19


def test_one_key_has_only_so_many_actions_under_way(tmp_path: Path) -> None:
    """They wait for a request that may be long, with files open, and also after their clients have left."""
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled())
    acting.done("save")
    acting.bench.submit(labelled(max_tokens=20))
    acting.bench.step()
    told = [acting.ask("restore") for _ in range(40)]
    acting.settle()
    refused = [answer for [answer] in filter(None, told)]
    assert len(refused) == 8
    assert all(isinstance(answer, Overloaded) for answer in refused)
    assert acting.done("erase", tenant="another") == SlotResult(num_tokens=0)
    while acting.bench.step():
        acting.turn()
    acting.settle()
    assert all(isinstance(answer, SlotResult) for [answer] in told[:32])
    assert isinstance(acting.done("restore"), SlotResult)
    assert not acting.actions._num_asked


def test_a_text_that_another_goes_on_with_is_saved_as_it_was(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=2), tmp_path)
    text = text_after(acting)
    acting.done("save")
    longer = ask(text * 2, max_tokens=30)
    blocker = ask("x" * 60, max_tokens=30)
    acting.bench.submit(longer)
    acting.bench.step()
    assert acting.done("save").num_tokens == len(text) - 1
    acting.bench.submit(blocker)
    acting.bench.step()
    told = acting.ask("save")
    acting.settle()
    assert isinstance(told[0], SlotResult | Unavailable | InvalidField)
    acting.bench.run()


@pytest.mark.parametrize("verb", ["save", "restore", "erase"])
def test_without_a_folder_or_a_runner_that_can(tmp_path: Path, verb: str) -> None:
    nowhere = Acting(bench(), None)
    with pytest.raises(Unsupported, match="Start it with `--slot-save-path`"):
        nowhere.done(verb)  # type: ignore[arg-type]
    assert not nowhere.actions.threads
    nowhere.bench.run(labelled(), labelled(slot=None))
    assert not nowhere.bench.scheduler.client_slots._texts, "of requests nobody can save"
    cannot = Acting(bench(), tmp_path)
    cannot.actions._access = None
    with pytest.raises(Unsupported, match="Segue's own kernels"):
        cannot.done(verb)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["save", "restore"])
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, verb: str) -> None:
    acting = Acting(bench(), tmp_path / "slots")
    (tmp_path / "slots").mkdir()
    acting.bench.run(labelled())
    for name in ("../a", "/tmp/a", "..", "", "a\0"):
        with pytest.raises(InvalidField, match="plain name"):
            acting.done(verb, filename=name)  # type: ignore[arg-type]
    assert [each.name for each in tmp_path.rglob("*")] == ["slots"]


# --- when something goes wrong ---------------------------------------------------------------------


def test_a_full_disk_is_told_and_the_slot_is_free_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acting = Acting(bench(num_slots=1), tmp_path)
    acting.bench.run(labelled())

    def fail(number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(EngineFault, match="Unable to save slot: No space left"):
            acting.done("save")
    assert [*tmp_path.iterdir()] == []
    acting.bench.run(ask("of others", max_tokens=2))
    acting.bench.run(labelled())
    acting.done("save")


def test_the_folder_has_a_limit_which_one_that_is_replaced_leaves(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled())
    size = acting.done("save").num_bytes
    full = Acting(acting.bench, tmp_path, most_bytes=2 * size + 99)
    (tmp_path / "other.txt").write_bytes(b"x" * 100)
    assert full.done("save").num_bytes == size
    with pytest.raises(OutOfSpace, match=r"\(--slot-save-mib\) others have"):
        full.done("save", filename="b.bin")
    (tmp_path / "other.txt").write_bytes(b"x" * 99)
    full.done("save", filename="b.bin")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.bin", "b.bin", "other.txt"]
    assert full.done("restore", filename="b.bin").num_bytes == size


@pytest.mark.parametrize(
    ("total", "free", "is_kept"),
    [
        (1 << 40, 255 << 20, False),
        (1 << 40, 300 << 20, True),
        (1 << 24, 1 << 20, True),
        (1 << 24, 1 << 19, False),
    ],
)
def test_a_disk_that_is_nearly_full_takes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int, free: int, is_kept: bool
) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled())
    disk = SimpleNamespace(total=total, free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    if is_kept:
        acting.done("save")
    else:
        with pytest.raises(OutOfSpace, match=r"the disk has [^,]+ left, and keeps"):
            acting.done("save")
    assert len([*tmp_path.iterdir()]) == is_kept


def test_when_running_requests_have_all_memory_it_may_be_tried_again(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=1), tmp_path)
    acting.bench.run(labelled(slot=1))
    acting.done("save", 1)
    acting.bench.submit(ask("of others", max_tokens=40))
    acting.bench.step()
    with pytest.raises(Unavailable, match="try again"):
        acting.done("restore", 1)
    acting.bench.run()
    acting.done("restore", 1)


def test_files_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    old, new = tmp_path / ".segue-old.part", tmp_path / ".segue-new.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    acting.actions._remove_stale()
    assert [*tmp_path.iterdir()] == [new]


def test_they_are_removed_before_a_slot_is_saved_too(tmp_path: Path) -> None:
    """A process that comes in place of a killed one starts before it can tell that nobody writes such a file."""
    acting = Acting(bench(), tmp_path, most_bytes=4096)
    text_after(acting)
    left = tmp_path / ".segue-left.part"
    left.write_bytes(b"half" * 1024)
    with pytest.raises(OutOfSpace):
        acting.done("save")
    os.utime(left, (0, 0))
    acting.done("save")
    assert [*tmp_path.iterdir()] == [tmp_path / "a.bin"]
