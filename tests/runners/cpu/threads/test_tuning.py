import itertools
from collections.abc import Callable

import pytest

from segue.runners.cpu.threads.tuning import Threads, Tuning, tuned


def waits(each: float, work: float, row: float) -> Callable[[int, int], float]:
    """Seconds of a step whose work is shared, and whose threads wait for each other."""
    return lambda rows, threads: (work + row * rows) / threads + each * threads


def test_a_large_model_takes_all_threads() -> None:
    tuning = tuned(waits(0.00001, 0.1, 0.001), 16, 256)
    assert [tuning.threads_for(rows, 16) for rows in (1, 8, 100)] == [16, 16, 16]


def test_a_small_model_takes_fewer_for_few_rows() -> None:
    measure = waits(0.00001, 0.0001, 0.0002)
    tuning = tuned(measure, 16, 256)
    chosen = [tuning.threads_for(rows, 16) for rows in (1, 2, 4, 8)]
    assert chosen == sorted(chosen)
    assert measure(1, chosen[0]) < measure(1, 16)
    assert tuning.threads_for(128, 16) == tuning.threads_for(1000, 16) >= 15


def test_fewer_threads_are_taken_where_they_are_as_fast() -> None:
    tuning = tuned(lambda rows, threads: 1e-3 / min(threads, 15), 16, 64)
    assert [tuning.threads_for(rows, 16) for rows in (1, 8, 64)] == [15, 15, 16]


def test_a_crowded_machine_is_not_filled_with_threads() -> None:
    """As many threads as processors, of which one is taken: every phase waits for the last one."""
    tuning = tuned(lambda rows, n: rows / n * (50 if n == 16 else 1), 16, 4)
    assert tuning.threads_for(1, 16) == 15


def test_large_models_are_not_measured_for_long() -> None:
    asked: list[int] = []

    def measure(rows: int, threads: int) -> float:
        asked.append(rows)
        return 0.03 * rows

    assert tuned(measure, 2, 256).threads_for(128, 2) == 2
    assert max(asked) == 2


def test_nothing_is_measured_beyond_where_all_threads_are_the_fastest() -> None:
    measure, asked = waits(0.001, 0.001, 0.001), []

    def noted(rows: int, threads: int) -> float:
        asked.append((rows, threads))
        return measure(rows, threads)

    tuning = tuned(noted, 2, 256)
    assert asked == [(1, 2), (1, 1), (2, 2), (2, 1)], "at one row both are as fast"
    assert [tuning.threads_for(rows, 2) for rows in (1, 2, 8, 300)] == [1, 2, 2, 2]


def test_no_more_rows_are_measured_than_there_are() -> None:
    asked: list[int] = []

    def measure(rows: int, threads: int) -> float:
        asked.append(rows)
        return 0.001

    tuned(measure, 2, 2)
    assert max(asked) == 2


def test_one_thread_is_not_measured() -> None:
    def measure(rows: int, threads: int) -> float:
        raise AssertionError("there is nothing to choose")

    tuning = tuned(measure, 1, 256)
    assert [tuning.threads_for(rows, 1) for rows in (1, 8, 100, 1000)] == [1, 1, 1, 1]


def settled(threads: Threads, measure: Callable[[int, int], float], rows: int) -> int:
    """The usual choice after many steps."""
    chosen = []
    for _ in range(1000):
        chosen.append(threads.choose(rows))
        threads.learn(rows, measure(rows, chosen[-1]), chosen[-1])
    return max(set(chosen[-300:]), key=chosen[-300:].count)


@pytest.mark.parametrize("start", [1, 2, 8, 16])
def test_steps_find_the_best_number_whatever_the_start_said(start: int) -> None:
    measure = waits(0.001, 0.014, 0.002)  # best with 4
    threads = Threads(Tuning(((8, start),)), 16)
    assert settled(threads, measure, 1) == 4


def test_the_choice_follows_when_processors_become_free() -> None:
    threads = Threads(Tuning(()), 2)
    assert settled(threads, lambda rows, n: 1.0 if n == 1 else 4.0, 1) == 1
    assert settled(threads, lambda rows, n: 1.0 / n, 1) == 2


def test_one_thread_less_leaves_a_processor_to_the_server() -> None:
    """With as many threads as processors three steps in four wait for one that lost its processor for a moment."""
    steps = itertools.count()

    def measure(rows: int, threads: int) -> float:
        return 12.0 / threads + (6.0 if threads == 4 and next(steps) % 4 else 0.0)

    assert settled(Threads(Tuning(()), 4), measure, 32) == 3


def test_a_choice_that_holds_is_questioned_ever_less() -> None:
    threads, tried = Threads(Tuning(()), 4), []
    for step in range(2000):
        if (chosen := threads.choose(32)) != 4:
            tried.append(step)
        threads.learn(32, 1.0 / chosen, chosen)
    assert len([step for step in tried if step < 500]) > len(
        [step for step in tried if step > 1500]
    )


def test_steps_that_were_begun_before_the_choice_changed_do_not_count() -> None:
    """Two steps are open: when a trial begins or ends, one still has the number from before."""
    threads = Threads(Tuning(()), 4)
    waiting = [threads.choose(32)]
    chosen = []
    for _ in range(2000):
        waiting.append(threads.choose(32))
        chosen.append(waiting.pop(0))
        threads.learn(32, {4: 1.0, 3: 0.5}.get(chosen[-1], 2.0), chosen[-1])
    assert max(set(chosen[-300:]), key=chosen[-300:].count) == 3


def test_a_choice_made_while_steps_were_disturbed_is_soon_taken_back() -> None:
    """Steps are slow while many requests begin; then one thread less seems to be faster."""
    threads, chosen = Threads(Tuning(()), 4), []
    for step in range(200):
        chosen.append(threads.choose(32))
        threads.learn(32, (3.0 if step < 16 else 1.0) * 4 / chosen[-1], chosen[-1])
    assert 3 in chosen[16:24]
    assert set(chosen[48:60]) == {4}
    assert chosen[60:].count(4) > 120


def test_what_is_much_slower_is_not_tried_for_long() -> None:
    threads, chosen = Threads(Tuning(()), 16), []
    for _ in range(500):
        chosen.append(threads.choose(1))
        threads.learn(1, 16 / chosen[-1], chosen[-1])
    assert 3 <= chosen.count(8) <= 6
    assert chosen.count(16) > 450


def test_rows_that_were_not_measured_take_all_threads() -> None:
    threads = Threads(Tuning(((1, 1),)), 16)
    assert {threads.choose(9), threads.choose(300)} == {16}
    assert Threads(Tuning(()), 1).choose(1) == 1
