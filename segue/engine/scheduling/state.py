"""What planning and commit share: the runner and its limits, requests, queues, memory and counters."""

from collections.abc import Callable

from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.batch import Batch, Counts
from segue.engine.scheduling.client_slots import ClientSlots
from segue.engine.scheduling.drafts.costs import DraftCosts
from segue.engine.scheduling.drafts.proposer import Proposer
from segue.engine.scheduling.drafts.texts import TextDrafts
from segue.engine.scheduling.mask_wait import MaskWait
from segue.engine.scheduling.memory import Memory
from segue.engine.scheduling.pace import Pace
from segue.engine.scheduling.turns.victims import Victims
from segue.engine.scheduling.turns.waiting import WaitingQueue
from segue.engine.seam import Runner, Vocab

_MASK_WAIT_S = 0.005  # the longest time per step spent waiting for slow constraints


class State:
    """Collections are changed in place, never replaced: planning and commit keep references to them."""

    def __init__(
        self,
        runner: Runner,
        vocab: Vocab,
        chunk_rows: int,
        clock: Callable[[], float],
        proposer: Proposer | None,
    ) -> None:
        self.runner = runner
        self.vocab = vocab
        self.limits = runner.capabilities
        self.chunk_rows = min(chunk_rows, self.limits.max_rows)  # prompt tokens per step
        self.pace = Pace(self.chunk_rows)
        self.draft_costs = DraftCosts()
        self.text_drafts = TextDrafts(self.limits, self.draft_costs)
        self.clock = clock
        self.memory = Memory(runner)
        self.client_slots = ClientSlots(self.memory, self.limits.num_slots)
        self.proposer = proposer
        self.counts = Counts()
        self.jobs: dict[str, Job] = {}
        self.waiting = WaitingQueue(
            lambda s: self.jobs[s.request_id].request.tenant,
            lambda s: self.jobs[s.request_id].request.priority,
        )
        self.running: list[Sequence] = []  # oldest first
        self.victims = Victims(self.running, self.waiting.tenant_of, self.waiting.priority_of)
        self.mask_wait = MaskWait(_MASK_WAIT_S)
        self.ahead: Batch | None = None  # begun before the one that is committed next

    def follow(self, batch: Batch) -> None:
        """A step of this batch is begun: until `settle`, nothing changes what the runner's slots hold."""
        self.ahead = batch
        self.memory.defer()
        self.mask_wait.begin_step()

    def settle(self) -> None:
        """The last step that was begun has ended: take back the rows that nobody reads, and do what was deferred."""
        batch, self.ahead = self.ahead, None
        self.memory.settle()
        for sequence in batch.void if batch else ():
            self.memory.trim(sequence)

    def drop(self, request_id: str, keep: bool = True) -> bool:
        """Remove the request with all its sequences. `keep`: their computed prefixes stay cached."""
        if self.jobs.get(request_id) is None:
            return False
        self.waiting.drop(request_id)
        for sequence in [s for s in self.running if s.request_id == request_id]:
            self.running.remove(sequence)
            self.memory.retire(sequence, keep)
        self.close(request_id)
        return True

    def close(self, request_id: str) -> None:
        """Remove an ended request, and free the cached prefixes that only this request could use."""
        job = self.jobs.pop(request_id)
        self.client_slots.ended(job)
        if job.private_salts:
            self.memory.forget(job.private_salts)
