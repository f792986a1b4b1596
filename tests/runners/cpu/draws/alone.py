"""Draws in the thread of a test, from rows of many kinds, and what the sampler draws from them."""

import ctypes
from collections.abc import Iterable
from functools import cache

import numpy as np
from hypothesis import strategies as st

from segue.engine.sampling.sampler import Sampler
from segue.engine.seam import Changes, Draw, Logits
from segue.errors import EngineFault, InvalidField
from segue.runners.cpu.draws import records as of
from segue.runners.cpu.draws.drawer import Drawer, Draws, write_told
from segue.runners.cpu.products.processor import VARIABLE, Flavour, possible, this_target
from segue.runners.cpu.step import board as on
from segue.types import CUT_FIRST, SCALE_FIRST, Sampling, Step
from tests.runners.cpu.products.reference import KEPT


def one_of_each_width(flavours: Iterable[Flavour]) -> dict[tuple[str, int], str]:
    """The best flavour of each architecture and width of registers, by these.

    Draws have one IR for all flavours, as test_changed_rows.py checks, and no integer dot products, which is all that
    flavours of one width differ in. What x86 without FMA does instead, generic code does too.
    """
    own = [each for each in flavours if each.has_fma]
    return {(each.arch, each.lanes): each.name for each in reversed(own)}


FLAVOURS = [*one_of_each_width(possible()).values()][::-1]
SIZES = (1, 2, 63, 64, 300, 4095, 4097, 5003, 20_000)
_FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)


class Alone:
    """Draws in this thread, as the team's phase does."""

    def __init__(self, flavour: str, size: int) -> None:
        target = this_target({VARIABLE: flavour})
        self.logits = np.zeros((2, size), np.float32)
        self._drawer = Drawer(size, 1, target, KEPT)
        self._instruction = np.zeros(on.INSTRUCTION_WORDS, np.int64)
        self._draws = Draws(self._drawer, self.logits, self._instruction)

    @property
    def feedback(self) -> list[float]:
        """Of the last draws."""
        return self._draws.read_feedback()

    def draw(self, draws: list[Draw], before: "Alone | None" = None) -> list[int | None]:
        """What is late was told before."""
        self._draws.write(draws, 2, None if before is None else before._draws)
        _, code, records, _, *where = self._instruction[:8].tolist()
        for number, draw in enumerate(draws):
            told = 0
            if draw.late is not None:
                _, told = write_told(draw.late, draw.late.told, self.logits.shape[1])
            self._draws._records[number, of.TOLD] = told
            _FUNCTION(code)(records + 8 * of.RECORD_WORDS * number, *where)
        return self._draws.read()


@cache
def drawer(flavour: str, size: int) -> tuple[Alone, Logits]:
    compiled = Alone(flavour, size)
    return compiled, compiled.logits


def drawn_alike(rows: list[Logits], draws: list[Draw]) -> list[int | None]:
    """What every flavour draws from the rows: the same, and rows stay as they are."""
    found = []
    for flavour in FLAVOURS:
        compiled, logits = drawer(flavour, rows[0].size)
        logits[: len(rows)] = rows
        before = logits.tobytes()
        found.append(compiled.draw(draws))
        assert logits.tobytes() == before, flavour
        assert found[-1] == found[0], flavour
    return found[0]


def some_row(style: str, size: int, seed: int) -> Logits:
    rng = np.random.default_rng(seed)
    row = rng.normal(0.0, 3.0, size).astype(np.float32)
    some = rng.random(size) < 0.3
    match style:
        case "ties":
            row = np.round(row)
        case "equal":
            row[:] = 1.5
        case "peaked":
            row[rng.integers(size)] += 40.0
        case "banned":
            row[some] = -np.inf
        case "almost all banned":
            row[rng.random(size) < 0.999] = -np.inf
        case "all banned":
            row[:] = -np.inf
        case "zeros":
            row = np.where(some, np.float32(-0.0), np.float32(0.0))
        case "huge":
            row *= np.float32(1e37)
        case "tiny":
            row *= np.float32(1e-41)
        case "not a number":
            row[rng.integers(size)] = np.nan
        case "infinite":
            row[rng.integers(size)] = np.inf
    return row


def some_changes(size: int, share: float, seed: int) -> Changes:
    rng = np.random.default_rng(seed)
    ids = rng.permutation(size)[: int(share * size)].astype(np.int64)
    added = rng.normal(0.0, 5.0, ids.size).astype(np.float32)
    added[rng.random(ids.size) < 0.3] = -np.inf
    return Changes(ids, added)


STYLES = (
    *("usual", "ties", "equal", "peaked", "banned", "almost all banned", "all banned"),
    *("zeros", "huge", "tiny", "not a number", "infinite"),
)


CUTS: tuple[Step, ...] = (
    *("top_k", "top_p", "min_p", "typical_p", "top_n_sigma", "xtc", "temperature"),
)


def orders(*steps: Step) -> st.SearchStrategy[tuple[Step, ...]]:
    """Some of the steps, in any order."""
    some = st.lists(st.sampled_from(steps), unique=True).map(tuple)
    return st.one_of(st.sampled_from([SCALE_FIRST, CUT_FIRST]), some)


def samplings() -> st.SearchStrategy[Sampling]:
    return st.builds(
        Sampling,
        order=orders(*CUTS),
        temperature=st.sampled_from([0.0, 1e-4, 0.3, 0.8, 1.0, 1.7, 50.0]),
        dynatemp_range=st.sampled_from([0.0, 0.0, 0.2, 1.0, 1e6]),
        dynatemp_exponent=st.sampled_from([0.0, 1e-300, 0.5, 1.0, 1.3, 1e6]),
        top_k=st.sampled_from([0, 0, 1, 2, 5, 40, 400, 5000]),
        top_p=st.sampled_from([1.0, 1.0, 0.0, 0.1, 0.5, 0.9, 0.999999]),
        min_p=st.sampled_from([0.0, 0.0, 1e-30, 0.01, 0.1, 1.0]),
        typical_p=st.sampled_from([1.0, 1.0, 0.0, 0.2, 0.9, 0.999999]),
        top_n_sigma=st.sampled_from([0.0, 0.0, 1e-9, 0.5, 1.0, 3.0, 1e308]),
        xtc_probability=st.sampled_from([0.0, 0.0, 0.5, 1.0]),
        xtc_threshold=st.sampled_from([0.0, 5e-324, 1e-4, 0.1, 0.5]),
        min_keep=st.sampled_from([0, 1, 3, 70]),
    )


def drawn(sampler: Sampler, row: Logits, position: int) -> int | type[Exception]:
    try:
        with np.errstate(all="ignore"):
            return sampler.sample(row, position)
    except (InvalidField, EngineFault) as error:
        return type(error)
