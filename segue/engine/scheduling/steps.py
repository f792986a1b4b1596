"""One step after the other: decoded and committed, or each begun before the last is committed, where that can be."""

from collections.abc import Callable, Iterator

from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.commit import StepEvents
from segue.engine.scheduling.scheduler import Scheduler
from segue.engine.seam import Runner


def run(
    scheduler: Scheduler, runner: Runner, batch: Batch, may_go_on: Callable[[], bool]
) -> Iterator[StepEvents]:
    """Run the batch, and steps after it while they can be told ahead and `may_go_on`. No step is open at the end.

    Yields the events of each step as soon as it has ended.
    """
    if not batch.draws:
        yield scheduler.commit(batch, runner.decode(batch.spans))
        return
    runner.begin(batch.spans, [*batch.draws.values()])
    following: Batch | None = batch
    while following is not None:
        batch = following
        following = scheduler.ahead(batch) if may_go_on() else None
        if following is not None:
            runner.begin(following.spans, [*following.draws.values()])
        yield scheduler.commit(batch, *runner.end())
