"""Tiles of many rows: as many rows as there are, with the bits of few."""

import numpy as np
import pytest

from segue.runners.cpu.products import kernels, machine_code, processor
from segue.runners.cpu.products.formats import FORMATS
from segue.runners.cpu.products.matrix import pack
from segue.runners.cpu.products.tiles import many
from tests.runners.cpu.products import emulated
from tests.runners.cpu.products.reference import expected, first_rows, inputs_of, multiplied, tensor

TAKING = [flavour for flavour in processor.FLAVOURS if many.pays(flavour, FORMATS["Q4_1"])]


def test_only_sums_of_16_bits_in_few_registers_take_them() -> None:
    assert [flavour.name for flavour in TAKING] == ["avx2", "sse4"]
    assert not any(many.pays(flavour, FORMATS["Q8_0"]) for flavour in TAKING)


# One group in a block and eight, halves with scales of their own, a scale of the whole matrix.
@pytest.mark.parametrize("flavour", TAKING, ids=lambda flavour: flavour.name)
@pytest.mark.parametrize("kind", ["Q4_1", "Q5_K", "Q6_K", "NVFP4"])
def test_any_number_of_rows_has_the_bits_of_the_definition(
    kind: str, flavour: processor.Flavour, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert many.pays(flavour, FORMATS[kind])
    target = processor.target_of(flavour)
    if flavour not in processor.possible():
        monkeypatch.setattr(kernels, "module", emulated.module)
        monkeypatch.setattr(machine_code, "compile_text", emulated.compiled)
        target = emulated.target_of(flavour)
    rng = np.random.default_rng(6)
    own, data = tensor(rng, kind, 2 * FORMATS[kind].block, 41)
    inputs = inputs_of(rng, 2 * many.MOST + many.LEAST + many.ROWS - 1, own.shape[0])
    right = expected(own, data, inputs)
    (matrix,) = pack([own], [data], target)
    for rows in (many.LEAST - 1, many.LEAST, many.LEAST + 1, many.MOST + 1, len(right)):
        got, beside = multiplied(matrix, first_rows(inputs, rows))
        np.testing.assert_array_equal(got, right[:rows])
        assert (beside == 7.5).all()
