from pathlib import Path

import pytest

from segue.bench.harness.stepping import Stepper, loader_of
from segue.bench.infill import Gap, answer, gaps, joint
from segue.types import Sampling


def test_the_gaps_are_what_the_figures_say_of_them() -> None:
    found = gaps()
    assert len(found) == 40
    single = [gap for gap in found if gap.one]
    assert len(single) >= 30
    assert all(1 <= len(gap.middle.split()) <= 4 for gap in single)
    assert len(set(found)) == 40


@pytest.mark.model
def test_the_embedded_model_fills_short_gaps(embedded_gguf: Path) -> None:
    stepper = Stepper(loader_of("cpu", str(embedded_gguf)))
    for gap in (
        Gap("The capital of France is", " Paris", ", and the capital of Italy is Rome.", True),
        Gap("The capital of France is ", "Paris", ", and the capital of Italy is Rome.", True),
        Gap("The sun rises in the", " east ", "and sets in the west.", True),
    ):
        middle, _ = answer(stepper, gap, Sampling(temperature=0), 8, is_ranked=True)
        plain, _ = answer(stepper, gap, Sampling(temperature=0), 1, is_ranked=False)
        assert middle == gap.middle
        assert joint(stepper, gap, middle) >= joint(stepper, gap, plain)
    stepper.runner.close()
    stepper.vocab.close()
