"""Limits of the feed-forward: which numbers of a file count, and which are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from segue.models.gguf import header
from segue.runners.cpu.architectures.parts.limits import LIMITS, limits_of
from segue.runners.cpu.architectures.support import supports
from tests.support.models.tiny_models import MODELS
from tests.support.models.tiny_writer import write


def test_a_limit_is_of_each_layer_or_of_all_and_none_if_it_is_as_good_as_0(tmp_path: Path) -> None:
    tiny = MODELS["step35"].with_settings(swiglu_clamp_exp=[0.5, 0.0, 1e-7, -2.0])
    found = header(write(tmp_path / "x.gguf", tiny.with_settings(swiglu_clamp_shexp=0.25)))
    assert limits_of(found, LIMITS[0]) == (0.5, 0.0, 0.0, 0.0)
    assert limits_of(found, LIMITS[1]) == (0.25,) * 4
    assert supports(found) is None


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ((0.5, 0.5), "step35.swiglu_clamp_exp is told of 2 layers, not of 4"),
        ((0.5, 1e31, 0.0, 0.0), "step35.swiglu_clamp_exp has 1e+31, which is not a real number"),
    ],
)
def test_limits_that_make_no_sense_are_refused(
    tmp_path: Path, told: tuple[float, ...], reason: str
) -> None:
    found = header(write(tmp_path / "x.gguf", MODELS["step35"]))
    name = f"step35.{LIMITS[0]}"
    changed = replace(
        found,
        array_lengths={**found.array_lengths, name: len(told)},
        short_arrays={**found.short_arrays, name: told},
    )
    assert reason in (supports(changed) or "")
