"""What a file may be restored for: the same model, kernels, layout and key, and adapters that are there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from segue.engine.seam import SlotKind
from segue.engine.slots import slot_file
from segue.errors import InvalidField
from segue.runners.fake import FakeRunner, default_capabilities
from segue.runners.fake_slots import FakeSlotBytes
from segue.types import Adapter
from tests.engine.harness import Bench
from tests.engine.slots.acting import PROMPT, Acting, bench, labelled


class Kind(FakeSlotBytes):
    def __init__(self, runner: FakeRunner, **other: str) -> None:
        super().__init__(runner.slots, runner.add_cells)
        self.kind: SlotKind = FakeSlotBytes.kind._replace(**other)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"model": "x"}, "another model"),
        ({"kernels": "x"}, "another version"),
        ({"layout": "x"}, "another type of KV cache"),
    ],
)
def test_another_model_or_version_is_refused(
    tmp_path: Path, other: dict[str, str], why: str
) -> None:
    acting = Acting(bench(), tmp_path)
    acting.bench.run(labelled())
    acting.done("save")
    runner = FakeRunner()
    there = Acting(Bench(runner), tmp_path, Kind(runner, **other))
    with pytest.raises(InvalidField, match=why):
        there.done("restore")
    assert len(there.bench.scheduler._state.memory._free) == runner.capabilities.num_slots


def test_a_damaged_file_evicts_nothing(tmp_path: Path) -> None:
    acting = Acting(bench(num_slots=1), tmp_path)
    acting.bench.run(labelled())
    acting.done("save")
    whole = bytearray((tmp_path / "a.bin").read_bytes())
    whole[-50] ^= 4
    (tmp_path / "a.bin").write_bytes(whole)
    with pytest.raises(InvalidField, match="damaged"):
        acting.done("restore")
    assert acting.bench.run(labelled())[0].prompted[0].num_cached == len(PROMPT) - 1
    with pytest.raises(InvalidField, match="no saved slot of that name"):
        acting.done("restore", filename="none")


def test_of_too_many_tokens_no_list_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crafted header may have millions, and a list of them takes the interpreter from the step thread."""
    acting, small = Acting(bench(), tmp_path), Acting(bench(context_length=16), tmp_path)
    acting.bench.run(labelled())
    acting.done("save")
    monkeypatch.delattr(slot_file.SlotHeader, "token_ids")
    with pytest.raises(InvalidField, match="the context holds 16"):
        small.done("restore")


def test_a_file_that_says_what_no_slot_holds_is_refused(tmp_path: Path) -> None:
    """Its digest is right: somebody wrote it so."""
    acting = Acting(bench(context_length=32), tmp_path)
    access = acting.actions._access
    assert access is not None

    def restore(tokens: list[int], data: bytes) -> None:
        header = slot_file.SlotHeader(
            kind=access.kind,
            owner=slot_file.owner_of(""),
            adapters=(),
            tokens=slot_file.packed_tokens(tokens),
            num_bytes=len(data),
        )
        slot_file.write(tmp_path / "x", header, [memoryview(data)])
        acting.done("restore", filename="x")

    size = access.num_bytes(3)
    for tokens, data, why in (
        ([], bytes(access.num_bytes(0)), "it has 0 tokens"),
        ([1] * 32, bytes(access.num_bytes(32)), "context holds 32"),
        ([1, 2, 264], bytes(size), "damaged"),
        ([1, 2, 3], bytes(size + 8), "damaged"),
        ([1, 2, 3], b"\xff" * size, "no slot holds"),
    ):
        with pytest.raises(InvalidField, match=why):
            restore(tokens, data)
        acting.bench.scheduler.check()
    assert acting.bench.runner.cells_free == acting.bench.capabilities.num_cells


def test_each_key_has_slots_and_files_of_its_own(tmp_path: Path) -> None:
    acting = Acting(bench(), tmp_path)
    anns: dict[str, Any] = {"tenant": "ann", "cache_salt": "key:ann"}
    bobs: dict[str, Any] = {"tenant": "bob", "cache_salt": "key:bob"}
    acting.bench.run(labelled(**anns))
    with pytest.raises(InvalidField, match="holds nothing"):
        acting.done("save", **bobs)
    acting.done("save", **anns)
    with pytest.raises(InvalidField, match="another API key"):
        acting.done("restore", **bobs)
    acting.bench.run(labelled("of bob", **bobs))
    with pytest.raises(InvalidField, match="choose another"):
        acting.done("save", **bobs)
    assert acting.done("erase", **bobs).num_tokens == len("of bob") + 7
    assert acting.bench.run(labelled(**anns))[0].prompted[0].num_cached == len(PROMPT) - 1
    assert acting.done("restore", **anns).num_tokens == len(PROMPT) + 7


def test_a_slot_with_adapters_serves_requests_with_these(tmp_path: Path) -> None:
    """They are known by their files: a server may have others too, in another order."""

    def adapted(*names: str) -> Acting:
        limits = replace(default_capabilities(), adapters=names)
        runner = FakeRunner(limits)
        return Acting(Bench(runner), tmp_path, digests={"a": "file of a", "z": "file of a"})

    first = adapted("a", "b")
    asked = labelled(adapters=(Adapter("a", 0.5),))
    [wanted] = first.bench.run(asked)
    first.done("save")
    second = adapted("other", "z")
    second.done("restore")
    [plain] = second.bench.run(labelled(adapters=(Adapter("z", 1.0),)))
    assert plain.prompted[0].num_cached == 0
    with pytest.raises(InvalidField, match="LoRA adapter that this server does not have"):
        adapted("b").done("restore")
    third = adapted("z")
    third.done("restore")
    [again] = third.bench.run(labelled(adapters=(Adapter("z", 0.5),)))
    assert again.prompted[0].num_cached == len(PROMPT) - 1
    assert again.essence == wanted.essence
