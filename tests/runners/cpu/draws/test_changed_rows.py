"""What a draw sees of its row: biases, bans and penalties as the sampler writes them, to the bit."""

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from itertools import permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import ir
from numpy.typing import NDArray

from segue.engine.constraints.vocabulary import Vocabulary
from segue.engine.sampling.penalties import Penalties
from segue.engine.seam import Changes, Late, Logits, Repeats, Told
from segue.runners.cpu.draws import chain
from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.changed_rows import draw_changed
from segue.runners.cpu.draws.drawer import write_told
from segue.runners.cpu.draws.passes import VOID
from segue.runners.cpu.draws.writing import Writer
from segue.runners.cpu.emit import f32, i64
from segue.runners.cpu.memory import address
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.processor import FLAVOURS as ALL
from segue.runners.cpu.products.processor import Target, possible, target_of
from segue.runners.fake import FakeVocab
from segue.types import Sampling
from tests.runners.cpu.conftest import BY_NAME
from tests.runners.cpu.draws.alone import FLAVOURS, one_of_each_width

SIZE = 83
ROW = 1
ADJUSTMENTS = (of.PENALTIES, of.DRY, of.LOGIT_BIAS)
ORDERS = [order for number in range(4) for order in permutations(ADJUSTMENTS, number)]


def _copying(target: Target) -> ir.Module:
    """A module whose draw copies the row that it is given to the first part of the scratch memory."""
    made = ir.Module("copying")
    made.triple = target.triple
    w = Writer(made, "copy_row", VOID, *(i64, i64, i64, i64, i64))
    record, logits, width, scratch, _ = w.args
    row = logits + width * w.load(i64, record, of.ROW) * 4
    with w.each(width) as i:
        w.store(w.load(f32, row, i), scratch, i)
    w.give()
    draw_changed(made, "changed_row", w.function)
    return made


@cache
def _function(flavour: str) -> Callable[..., None]:
    target = target_of(BY_NAME[flavour])
    code = machine_code.load("test", lambda: _copying(target), ["changed_row"], target)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(code["changed_row"])


def seen_by_the_draw(
    flavour: str,
    row: Logits,
    changes: Changes,
    repeats: Repeats,
    last: int | None,
    told: Told | None = None,
    order: tuple[int, ...] = (of.PENALTIES,),
    biases: Changes | None = None,
) -> Logits:
    """The row as the draw sees it. `last`: a token that comes after the others; None told: it waits for nothing."""
    logits = np.stack([np.zeros(SIZE, np.float32), row, np.ones(SIZE, np.float32)])
    before = logits.tobytes()
    part = of.part_bytes(SIZE)
    scratch = np.full(part * of.NUM_PARTS, 0xA5, np.uint8)  # whatever was there before
    record = np.zeros(of.RECORD_WORDS, np.int64)
    record[of.ROW] = ROW
    record[of.EARLY : of.EARLY + of.MOST_EARLY] = [*order, *[of.NO_CUT] * 3][: of.MOST_EARLY]
    about = [address(changes.ids), address(changes.added), changes.ids.size]
    record[of.CHANGED_IDS : of.NUM_CHANGES + 1] = about
    if biases is not None:
        about = [address(biases.ids), address(biases.added), biases.ids.size]
        record[of.BIASED_IDS : of.NUM_BIASES + 1] = about
    tokens, first, counted, end, *factors, _ = repeats
    kept = np.array([0 if last is None else last], np.int64)
    place = 0 if last is None else address(kept)
    about = [address(tokens) + 8 * first, end - first, counted - first, place]
    record[of.SEEN : of.LAST + 1] = about
    struct.pack_into("=fffi", record.data.cast("B"), 8 * of.FACTORS, *factors)
    late = Late()
    record[of.TOLD] = 0 if told is None else write_told(late, told, SIZE)[1]
    where = (address(record), address(logits), SIZE, address(scratch), part)
    _function(flavour)(*where)
    assert logits.tobytes() == before, "the row is as it was, and so are its neighbours"
    return scratch[: 4 * SIZE].view(np.float32).copy()


def _row(seed: int, style: str) -> Logits:
    rng = np.random.default_rng(seed)
    row = rng.normal(0.0, 3.0, SIZE).astype(np.float32)
    some = rng.random(SIZE) < 0.3
    match style:
        case "banned":
            row[some] = -np.inf
        case "zeros":
            row = np.where(some, np.float32(-0.0), np.float32(0.0))
        case "huge":
            row *= np.float32(1e38)
        case "tiny":
            row *= np.float32(1e-41)
        case "not numbers":
            row[some] = np.nan
        case "infinite":
            row[some] = np.inf
    return row


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary(FakeVocab(), SIZE)


def _changes(seed: int, share: float) -> Changes:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(SIZE)[: int(share * SIZE)].astype(np.int64)
    added = rng.normal(0.0, 5.0, ids.size).astype(np.float32)
    added[rng.random(ids.size) < 0.3] = -np.inf
    return Changes(ids, added)


tokens = st.lists(st.integers(0, SIZE - 1) | st.integers(0, 5), max_size=60)
factors = st.floats(-3.0, 3.0) | st.sampled_from([0.0, -0.0, 1e-45, 1e38, 1e300, -1e300])


@given(
    seed=st.integers(0, 2**32),
    style=st.sampled_from(
        ["usual", "usual", "banned", "zeros", "huge", "tiny", "not numbers", "infinite"]
    ),
    share=st.sampled_from([0.0, 0.0, 0.2, 1.0]),
    prompt=tokens,
    output=tokens,
    last=st.none() | st.integers(0, SIZE - 1) | st.integers(0, 5),
    window=st.sampled_from([-1, -1, 1, 2, 3, 17, 64, 1000]),
    repetition=st.floats(0.1, 10.0) | st.sampled_from([1.0, 1.0, 1e-45, 1e39, 100.0]),
    presence=factors,
    frequency=factors,
    penalize_prompt=st.booleans(),
    repetition_last=st.booleans(),
    allowed=st.none() | st.binary(min_size=-(-SIZE // 8), max_size=-(-SIZE // 8)),
    late_share=st.sampled_from([None, 0.0, 0.2, 1.0]),
    order=st.sampled_from(ORDERS),
)
@settings(max_examples=150, deadline=None)
def test_penalties_are_the_samplers_to_the_bit(
    seed: int,
    style: str,
    share: float,
    prompt: list[int],
    output: list[int],
    last: int | None,
    window: int,
    repetition: float,
    presence: float,
    frequency: float,
    penalize_prompt: bool,
    repetition_last: bool,
    allowed: bytes | None,
    late_share: float | None,
    order: tuple[int, ...],
) -> None:
    with np.errstate(all="ignore"):
        penalties = Penalties(
            Sampling(
                repetition_penalty=repetition,
                presence_penalty=presence,
                frequency_penalty=frequency,
                penalty_window=window,
                penalize_prompt=penalize_prompt,
                repetition_last=repetition_last,
            )
        )
        penalties.start(prompt)
        for token in output:
            penalties.push(token)
        repeats = penalties.repeats(None if last is None else 0)
        row, changes = _row(seed, style), _changes(seed, share)
        biases = _changes(seed + 3, share)
        bits = None if allowed is None else np.frombuffer(allowed, np.uint8)
        late = None if late_share is None else _changes(seed + 1, late_share)
        costs = None if late_share is None else _changes(seed + 2, late_share)
        told = None if bits is None and late is None else Told(bits, late, costs)
        seen = [
            seen_by_the_draw(flavour, row, changes, repeats, last, told, order, biases)
            for flavour in FLAVOURS
        ]
        if last is not None:
            penalties.push(last)
        wanted = row.copy()
        if bits is not None:
            vocabulary().restrict(wanted, bits)
        wanted[changes.ids] += changes.added
        if late is not None:
            wanted[late.ids] += late.added
        for step in order:
            if step == of.PENALTIES:
                penalties.apply(wanted)
            elif step == of.LOGIT_BIAS:
                wanted[biases.ids] += biases.added
            elif costs is not None:
                wanted[costs.ids] += costs.added
    is_number = ~np.isnan(wanted)
    for found in seen:
        assert (np.isnan(found) == ~is_number).all()
        assert found[is_number].tobytes() == wanted[is_number].tobytes()


NOTHING = Changes(np.empty(0, np.int64), np.empty(0, np.float32))


def _repeats(seen: NDArray[np.int64], repetition: float = 2.0) -> Repeats:
    return Repeats(seen, 0, 0, seen.size, repetition, 0.5, 0.25)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_is_no_token_of_the_model_has_no_logit(flavour: str) -> None:
    row = np.full(SIZE, 4.0, np.float32)
    seen = np.array([-1, 3, SIZE, 2**40, -(2**40), 3], np.int64)
    found = seen_by_the_draw(flavour, row, NOTHING, _repeats(seen), 2**50)
    row[3] = 2.0 - (2 * 0.25 + 0.5)
    assert found.tolist() == row.tolist()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_where_the_draw_before_gave_no_token_it_is_token_0(flavour: str) -> None:
    row = np.full(SIZE, 4.0, np.float32)
    found = seen_by_the_draw(flavour, row, NOTHING, _repeats(np.empty(0, np.int64)), of.NOT_DONE)
    row[0] = 2.0 - (0.25 + 0.5)
    assert found.tolist() == row.tolist()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_an_id_that_is_changed_twice_is_restored(flavour: str) -> None:
    row = np.zeros(SIZE, np.float32)
    twice = Changes(np.array([5, 5], np.int64), np.array([1.0, 2.0], np.float32))
    found = seen_by_the_draw(flavour, row, twice, _repeats(np.array([5, 5], np.int64), 1.0), None)
    assert found[5] == 3.0 - (2 * 0.25 + 0.5)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_nothing_is_drawn_where_the_mask_is_not_known(flavour: str) -> None:
    logits = np.zeros((ROW + 1, SIZE), np.float32)
    record = np.zeros(of.RECORD_WORDS, np.int64)
    record[of.ROW], record[of.TOLD], record[of.TOKEN] = ROW, -1, 7
    part = of.part_bytes(SIZE)
    scratch = np.zeros(part * of.NUM_PARTS, np.uint8)
    _function(flavour)(address(record), address(logits), SIZE, address(scratch), part)
    assert record[of.TOKEN] == of.NOT_DONE


def test_draws_have_one_ir_for_all_flavours() -> None:
    """Which is why the tests here take one flavour of each width of registers."""
    no_flavour: Any = SimpleNamespace(triple=target_of(BY_NAME[FLAVOURS[0]]).triple)
    assert chain.NAME in chain.module(no_flavour).globals


WIDTHS_HERE = one_of_each_width(possible()).keys()
ELSEWHERE = [name for width, name in one_of_each_width(ALL).items() if width not in WIDTHS_HERE]


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_draws_compile_for_flavours_of_other_processors(name: str) -> None:
    target = target_of(BY_NAME[name])
    assert chain.NAME in machine_code.assembly(chain.module(target), target)
