from pathlib import Path

import pytest

from segue.bench.harness.stepping import Stepper, loader_of
from segue.bench.infill import Gap, answer, gaps, joint
from segue.types import Prompt, Sampling


def test_the_gaps_are_what_the_figures_say_of_them() -> None:
    found = gaps()
    assert len(found) == 40
    single = [gap for gap in found if gap.one]
    assert len(single) >= 30
    assert all(1 <= len(gap.middle.split()) <= 4 for gap in single)
    assert len(set(found)) == 40


@pytest.mark.parametrize(("cut", "num"), [("prompt", 40), ("suffix", 16)])
def test_a_cut_moves_a_space_and_leaves_the_text_as_it_was(cut: str, num: int) -> None:
    whole = {gap.prefix + gap.middle + gap.suffix for gap in gaps()}
    moved = gaps(cut)
    assert len(moved) == num
    assert {gap.prefix + gap.middle + gap.suffix for gap in moved} <= whole
    if cut == "prompt":
        assert all(gap.prefix.endswith(" ") for gap in moved)
    else:
        assert not any(gap.suffix.startswith(" ") for gap in moved)


@pytest.mark.model
def test_the_embedded_model_fills_short_gaps(embedded_gguf: Path) -> None:
    stepper = Stepper(loader_of("cpu", str(embedded_gguf)))
    for gap in (
        Gap("The capital of France is", " Paris", ", and the capital of Italy is Rome.", True),
        Gap("The capital of France is ", "Paris", ", and the capital of Italy is Rome.", True),
        Gap("The sun rises in the", " east ", "and sets in the west.", True),
    ):
        prompt = Prompt((gap.prefix,))
        middle, _ = answer(stepper, prompt, gap.suffix, Sampling(temperature=0), 8)
        plain, _ = answer(stepper, prompt, None, Sampling(temperature=0), 1)
        assert middle == gap.middle
        assert joint(stepper, gap, middle) >= joint(stepper, gap, plain)
    stepper.runner.close()
    stepper.vocab.close()
