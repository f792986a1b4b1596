from typing import cast

from segue.engine.constraints.guide import Guide
from segue.engine.scheduling.mask_wait import MaskWait


class SlowGuide:
    """Its mask never comes; waiting for it takes as long as it may."""

    is_ready = False

    def __init__(self, times: list[float]) -> None:
        self._times = times

    def wait(self, timeout_s: float) -> bool:
        self._times[0] += timeout_s
        return False


def test_many_slow_constraints_cost_a_step_no_more_than_one() -> None:
    times = [0.0]
    wait = MaskWait(0.005, lambda: times[0])
    for step in range(1, 4):
        wait.begin_step()
        for _ in range(20):
            assert not wait.wait(cast(Guide, SlowGuide(times)))
        assert abs(times[0] - 0.005 * step) < 1e-9
