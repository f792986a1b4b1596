from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.families import FAMILIES
from segue.runners.cpu.architectures.parts.alibi import max_bias, slopes
from segue.runners.cpu.architectures.settings import senseless
from segue.runners.cpu.architectures.support import supports
from tests.runners.cpu.conftest import load
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def test_slopes_of_a_power_of_two_are_even_steps() -> None:
    np.testing.assert_array_equal(slopes(8.0, 8), [2.0**-i for i in range(1, 9)])
    np.testing.assert_array_equal(slopes(8.0, 1), [2.0**-8])
    np.testing.assert_allclose(slopes(8.0, 16)[:4], np.exp2([-0.5, -1.0, -1.5, -2.0]), rtol=1e-15)


def test_heads_beyond_a_power_of_two_are_between_the_first() -> None:
    found = slopes(8.0, 12)
    np.testing.assert_array_equal(found[:8], slopes(8.0, 8))
    np.testing.assert_allclose(found[8:], np.exp2([-0.5, -1.5, -2.5, -3.5]), rtol=1e-15)


def test_a_great_exponent_gives_slopes_of_0() -> None:
    assert slopes(1e30, 4).tolist() == [0.0] * 4


def test_baichuan_has_biases_in_models_of_40_layers(tmp_path: Path) -> None:
    tiny, family = MODELS["baichuan"], FAMILIES["baichuan"]
    found = {
        layers: max_bias(
            header(write(tmp_path / f"{layers}.gguf", replace(tiny, layers=layers))), family
        )
        for layers in (3, 32, 40)
    }
    assert found == {3: 0.0, 32: 0.0, 40: 8.0}


@pytest.mark.parametrize("told", [-8.0, float("nan"), float("inf")])
def test_a_bias_that_makes_no_sense_is_refused(tmp_path: Path, told: float) -> None:
    tiny = MODELS["jais"].with_settings(attention__max_alibi_bias=told)
    assert f"jais.attention.max_alibi_bias is {told}" in (
        senseless(header(write(tmp_path / "x.gguf", tiny))) or ""
    )


def test_a_file_without_a_bias_is_computed_without(tmp_path: Path) -> None:
    tiny = MODELS["jais"].with_settings(attention__max_alibi_bias=0.0)
    found = header(write(tmp_path / "x.gguf", tiny))
    assert supports(found) is None
    assert max_bias(found, FAMILIES["jais"]) == 0.0


def test_positions_that_mpt_may_have_learned_are_those_of_its_context(tmp_path: Path) -> None:
    """A matrix of fewer would be read beyond its end."""
    tiny = MODELS["mpt with biases, learned positions"]
    path = write(tmp_path / "x.gguf", replace(tiny, learned_positions=511))
    assert supports(header(path)) == (
        "tensor position_embd.weight has the shape (64, 511), not (64, 512) "
        "(mpt: embedding_length 64, context_length 512)"
    )
    runner = load(write(path, tiny), context_length=1024)
    assert runner.capabilities.context_length == 512
    runner.close()
    runner = load(write(path, MODELS["mpt"]), context_length=1024)
    assert runner.capabilities.context_length == 1024
    runner.close()
