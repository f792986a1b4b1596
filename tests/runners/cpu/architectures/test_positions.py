"""How fast pairs of dimensions turn, beside the formulas of YaRN's paper."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from segue.models import gguf
from segue.runners.cpu.architectures.positions import rotations
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write

BASE, FACTOR, ORIGINAL = 10000.0, 4.0, 128  # what the tiny model's file says


@pytest.mark.parametrize(("fast", "slow"), [(32.0, 1.0), (4.0, 1.0), (1.0, 1.0)])
def test_betas_of_yarn_are_those_of_the_file(tmp_path: Path, fast: float, slow: float) -> None:
    """Kimi K2 and Devstral 2 have others than the usual ones, which llama.cpp takes for them (build 11549)."""
    header = gguf.header(write(tmp_path / "x.gguf", MODELS["llama, YaRN"]))
    betas = {"fast": fast, "slow": slow}
    own = {f"llama.rope.scaling.yarn_beta_{name}": beta for name, beta in betas.items()}
    changed = replace(header, metadata={**header.metadata, **own})
    assert supports(changed) is None
    speeds = rotations(changed, {}).speeds
    pairs = len(speeds)
    plain = BASE ** (-np.arange(pairs) / pairs)

    def place(turns: float) -> float:
        return pairs * math.log(ORIGINAL / (turns * 2 * math.pi)) / math.log(BASE)

    low, high = max(0, math.floor(place(fast))), min(2 * pairs - 1, math.ceil(place(slow)))
    scaled = np.clip((np.arange(pairs) - low) / max(0.001, high - low), 0, 1)
    np.testing.assert_allclose(speeds, plain * (1 - scaled) + plain / FACTOR * scaled, rtol=1e-12)


@pytest.mark.parametrize(("told", "magnitude"), [(0.0, 1 + 0.1 * math.log(FACTOR)), (1.0, 1.0)])
def test_the_magnitude_of_yarn_may_be_divided_by_what_the_file_says(
    tmp_path: Path, told: float, magnitude: float
) -> None:
    """Devstral 2's first file, of llama, says so as Ministral's do."""
    header = gguf.header(write(tmp_path / "x.gguf", MODELS["llama, YaRN"]))
    own = {"llama.rope.scaling.yarn_log_multiplier": told}
    changed = replace(header, metadata={**header.metadata, **own})
    assert supports(changed) is None
    assert math.isclose(rotations(changed, {}).magnitude, magnitude)
