"""Times, and what is computed of them."""

from segue.dialects.rendering.timings import timings, timings_of_reading
from segue.types import Finished, Progress, Prompted


def test_tokens_add_up_and_the_longest_time_counts() -> None:
    prompts = [Prompted(0, (1, 2, 3, 4), 1), Prompted(1, (1, 2), 0)]
    choices = [
        Finished(0, "stop", "eos", 5, prompt_s=0.5, decode_s=2.0),
        Finished(1, "length", "max_tokens", 7, prompt_s=0.25, decode_s=1.0),
    ]
    assert timings(prompts, choices) == {
        "cache_n": 1,
        "prompt_n": 5,
        "prompt_ms": 500.0,
        "prompt_per_token_ms": 100.0,
        "prompt_per_second": 10.0,
        "predicted_n": 12,
        "predicted_ms": 2000.0,
        "predicted_per_token_ms": 200.0,  # of the ten tokens that are not the first
        "predicted_per_second": 5.0,
    }


def test_nothing_takes_no_time() -> None:
    nothing = timings([], [])
    assert set(nothing.values()) == {0}
    assert timings_of_reading(Progress(0, 3, 9, 3, 0.0)) == {**nothing, "cache_n": 3}


def test_what_was_cached_is_not_read() -> None:
    told = timings_of_reading(Progress(0, 7, 9, 3, 0.5))
    assert (told["cache_n"], told["prompt_n"]) == (3, 4)
    assert (told["prompt_ms"], told["prompt_per_second"]) == (500.0, 8.0)
