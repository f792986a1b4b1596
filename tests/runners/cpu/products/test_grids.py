import numpy as np
import pytest

from segue.runners.cpu.products import grids
from segue.runners.cpu.products.formats import FORMATS
from segue.runners.cpu.products.grids import GRIDS, table
from segue.runners.cpu.products.kernels import kernels
from segue.runners.cpu.products.layout import Format, Small
from segue.runners.cpu.products.processor import this_target
from tests.runners.cpu.products.reference import packed, tensor

TARGET = this_target({})
GRID_TYPES = {form.name: form for form in GRIDS}


@pytest.mark.parametrize("kind", GRID_TYPES)
def test_every_row_that_a_block_can_name_is_in_the_table(kind: str) -> None:
    """Compiled code checks no bounds: a row of the file's bits must be one."""
    grid = GRID_TYPES[kind].grid
    assert grid is not None
    assert len(grid.rows) * grid.columns == GRID_TYPES[kind].block
    most = max(row.mask | row.high_mask << row.above for row in grid.rows)
    assert len(table(kind)) == (most + 1) * grid.columns
    assert max(table(kind)) < 1 << grid.bits


def _reach(small: Small) -> int:
    """The last byte of the block that is read for a number."""
    parts = [(small.low, small.mask), (small.high, small.high_mask)]
    return max(byte + (shift + mask.bit_length() > 8) for (byte, shift), mask in parts)


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_numbers_lie_within_their_block(form: Format) -> None:
    read = [*form.scales, *form.mins]
    read += [] if form.grid is None else [*form.grid.rows, *form.grid.signs]
    assert max(map(_reach, read), default=0) < form.block_bytes
    for places, is_highest in ((form.low, not form.high), (form.high, True)):
        size = 1 if form.is_spread and is_highest else 4
        assert max((byte for byte, _ in places), default=0) + size <= form.block_bytes
    assert len(form.scales) % form.groups == len(form.mins) % form.groups == 0


@pytest.mark.parametrize("form", FORMATS.values(), ids=lambda form: form.name)
def test_sums_of_two_products_fit_16_bits(form: Format) -> None:
    """What VPMADDUBSW adds, which saturates, where codes are not signed."""
    assert form.is_signed or 2 * form.top * 127 <= 32767


def test_tables_are_not_asked_for_where_code_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in it; the package that has them takes a tenth of a second of a start."""
    own, data = tensor(np.random.default_rng(0), "IQ2_XS", 256, 3)
    packed(own, data, TARGET)
    kernels.cache_clear()
    monkeypatch.setattr(grids, "table", None)
    assert packed(own, data, TARGET).num_bytes
