import pytest

from segue.dialects.rendering.tally import Meter, Tally
from segue.types import (
    CompletionRequest,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Prompt,
    Prompted,
    Usage,
)
from tests.support.fakes import score

REQUEST = CompletionRequest(
    request_id="r", model="m", prompts=(Prompt(("a",)), Prompt(("b",))), n=2
)


def test_events_are_sorted_by_prompt_and_choice() -> None:
    tally = Tally(REQUEST)
    events: list[Event] = [
        Prompted(1, (5, 6), 1),
        Delta(3, "x", (7,), (score(b"x"),)),
        Prompted(0, (4,), 0),
        Delta(0, "y", (8, 9)),
        Delta(3, "z", (10,)),
        Finished(3, "stop", "stop_text", 2, "END"),
    ]
    meter = Meter(REQUEST.n)
    for event in events:
        tally.push(event)
        meter.push(event)
    assert [prompt.tokens for prompt in tally.prompts] == [(4,), (5, 6)]
    assert [choice.text for choice in tally.choices] == ["y", "", "", "xz"]
    assert tally.choices[3].tokens == [7, 10]
    assert tally.choices[3].scores == [score(b"x")]
    assert tally.choices[3].finished.stop == "END"
    assert not tally.is_done
    tally.push(Done(Usage(3, 4, 1), 1))
    assert tally.is_done
    assert tally.usage == meter.usage == Usage(3, 4, 1)
    assert [meter.usage_of(choice) for choice in (0, 1, 3)] == [
        Usage(1, 2, 0),
        Usage(1, 0, 0),
        Usage(2, 2, 1),
    ]


def test_a_failure_is_not_an_answer() -> None:
    with pytest.raises(TypeError):
        Tally(REQUEST).push(Failed("engine_died", "gone"))
