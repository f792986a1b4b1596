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
    began_s: float,
) -> Iterator[StepEvents]:
    """Run the step of this batch, and steps after it for as long as each can be planned ahead and `may_go_on`.

    Yields the events of each step as soon as it has ended. When the next is asked for, the scheduler is told how long
    the step took by this clock, since `began_s`: before it was planned. No step is open at the end.
    """
    if not batch.draws:
        yield scheduler.commit(batch, runner.decode(batch.spans))
        scheduler.learn(batch, clock() - began_s)
        return
    runner.begin(batch.spans, [*batch.draws.values()])
    following: Batch | None = batch
    while following is not None:
        batch = following
        following = scheduler.ahead(batch) if may_go_on() else None
        if following is not None:
            runner.begin(following.spans, [*following.draws.values()])
        yield scheduler.commit(batch, *runner.end())
        ended_s = clock()
        scheduler.learn(batch, ended_s - began_s)
        began_s = ended_s
