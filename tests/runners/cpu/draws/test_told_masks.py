"""Masks that are told to a step: before it is begun, or too late. Those that come meanwhile: ../test_steps_ahead.py."""

import numpy as np

from segue.engine.seam import Changes, Cut, Draw, Late, Span, Told
from segue.runners.cpu.runner import CpuRunner

GREEDY = (Cut("top_k", 0.0, 1),)


def test_a_mask_that_is_never_told_gives_no_token_and_holds_no_step(runner: CpuRunner) -> None:
    late = Late()
    held = [Draw(0, 0.5, GREEDY, late=late), Draw(1, 0.5, GREEDY)]
    runner.begin([Span(0, [4], 0, 1), Span(1, [5], 0, 1)], held)
    runner.begin([Span(0, [-1], 1, 1), Span(1, [-2], 1, 1)], held)
    for _ in range(2):
        given, other = runner.end().tokens
        assert given is None
        assert other is not None
    runner.tell(late, Told(np.full(1, 255, np.uint8)))  # too late: nobody looks at it


def test_a_mask_may_be_told_before_its_step_is_begun(runner: CpuRunner) -> None:
    logits = runner.decode([Span(0, [4], 0, 1)])[0].copy()
    second = int(np.argsort(-logits)[1])
    allowed = np.zeros(second // 8 + 1, np.uint8)
    allowed[second // 8] = 1 << second % 8
    best = int(logits.argmax())
    ban = Changes(np.array([best]), np.array([-np.inf], np.float32))
    told = (Told(allowed), second), (Told(changes=ban), second), (Told(allowed, ban), second)
    for what, token in (*told, (Told(), best), (None, None)):
        late = Late()
        runner.tell(late, what)
        runner.begin([Span(1, [4], 0, 1)], [Draw(0, 0.5, GREEDY, late=late)])
        step = runner.end()
        assert step.tokens == [token]
        assert step.logits[0].tobytes() == logits.tobytes()
        runner.free(1)
    runner.begin([Span(1, [4], 0, 1)], [Draw(0, 0.5, GREEDY)])
    assert runner.end().tokens == [best], "the record has nothing of what was told"
