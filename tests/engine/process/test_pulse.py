from segue.engine.process.pulse import Pulse


def test_age_grows_with_the_work_and_not_while_resting() -> None:
    now = 10.0
    pulse = Pulse(lambda: now)
    assert pulse.age_s == 0
    pulse.beat()
    now = 15.0
    assert pulse.age_s == 5
    pulse.beat()
    assert pulse.age_s == 0
    now = 20.0
    pulse.rest()
    assert pulse.age_s == 0
