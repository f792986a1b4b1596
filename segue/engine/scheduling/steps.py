"""Runs steps one after the other. Where that can be, each is begun before the one before it is committed."""

from collections.abc import Callable, Iterator

from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.commit import StepEvents
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Runner


def run(
    scheduler: Scheduler,
    runner: Runner,
    batch: Batch,
    may_go_on: Callable[[], bool],
    clock: Callable[[], float],
) -> Iterator[StepEvents]:
    """Run the step of this batch, and steps after it for as long as each can be planned ahead and `may_go_on`.

    Yields the events of each step as soon as it has ended, and tells the scheduler how long it took by this clock. No
    step is open at the end.
    """
    began_s = clock()
    if not batch.draws:
        events = scheduler.commit(batch, runner.decode(batch.spans))
        scheduler.learn(batch, clock() - began_s)
        yield events
        return
    runner.begin(batch.spans, [*batch.draws.values()])
    following: Batch | None = batch
    while following is not None:
        batch = following
        following = scheduler.ahead(batch) if may_go_on() else None
        if following is not None:
            runner.begin(following.spans, [*following.draws.values()])
        events = scheduler.commit(batch, *runner.end())
        ended_s = clock()
        scheduler.learn(batch, ended_s - began_s)
        began_s = ended_s
        yield events
