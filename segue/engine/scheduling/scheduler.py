"""The scheduler's interface: add and cancel requests; each step is next_batch → Runner.decode → commit.

If the batch has draws, the runner may `begin` and `end` its step in place of `decode`. The step after it can then be
begun before it has ended: `ahead` gives its batch.
"""

from collections.abc import Callable

from segue.engine.request.job import Job
from segue.engine.scheduling.ahead import Ahead
from segue.engine.scheduling.batch import Batch, DrawnFeedback, DrawnTokens
from segue.engine.scheduling.client_slots import ClientSlots
from segue.engine.scheduling.commit import Committer, StepEvents
from segue.engine.scheduling.drafts.costs import Kind
from segue.engine.scheduling.drafts.proposer import Proposer
from segue.engine.scheduling.planning import Planner
from segue.engine.scheduling.state import State
from segue.engine.seam import Logits, Runner, Vocab
from segue.types import Stats


class Scheduler:
    def __init__(
        self,
        runner: Runner,
        vocab: Vocab,
        chunk_rows: int,
        clock: Callable[[], float],
        proposer: Proposer | None = None,
    ) -> None:
        self._state = State(runner, vocab, chunk_rows, clock, proposer)
        self._planner = Planner(self._state)
        self._ahead = Ahead(self._state)
        self._committer = Committer(self._state)

    def add(self, job: Job) -> None:
        self._state.jobs[job.request.request_id] = job
        self._state.client_slots.began(job)
        self._state.waiting.extend(job.sequences)

    def cancel(self, request_id: str) -> None:
        """End the request and free its slots. Its computed prefixes stay in the prefix cache."""
        if self._state.drop(request_id):
            self._state.counts.cancelled += 1

    def next_batch(self) -> Batch | None:
        """The batch to compute now, or None if nothing can be computed."""
        batch = self._planner.next_batch()
        if batch is not None:
            self._ahead.plan_draws(batch)
        return batch

    def ahead(self, batch: Batch) -> Batch | None:
        """The batch after this one, which is open: its step can be begun now. None: this one must be committed first.

        Until the last such batch is committed, nothing may be called but this, `commit` and `learn`.
        """
        following = self._ahead.following(batch)
        if following is not None:
            self._state.follow(following)
        return following

    def commit(
        self,
        batch: Batch,
        logits: Logits,
        drawn: DrawnTokens = (),
        feedback: DrawnFeedback = (),
    ) -> StepEvents:
        """The events that follow from the batch's logits. `drawn`, `feedback`: of its draws, if the step made them."""
        if self._state.ahead is batch:
            self._state.settle()
        return self._committer.commit(batch, logits, drawn, feedback)

    def learn(self, batch: Batch, seconds: float) -> None:
        """Report how long the step of this batch took, with its plan and what was done with its events.

        Chunks of prompts become as large as running streams bear, drafts as long as they pay.
        """
        state, num_sequences = self._state, len(batch.sequences)
        state.pace.learn(batch.num_rows, batch.num_prompt_rows, seconds)
        if batch.num_prompt_rows:
            return
        kind, num_expected = _kind(batch), num_sequences + batch.num_drafted
        if batch.num_rows == num_expected and not batch.has_proposals:
            state.draft_costs.learn(num_sequences, batch.num_rows, kind, seconds)
        if state.proposer is not None and not batch.num_drafted:
            state.proposer.learn(num_sequences, kind, seconds, batch.num_tokens)

    @property
    def awaits_mask(self) -> bool:
        """Whether the last batch left out a sequence because its constraint's mask was not ready."""
        return self._planner.awaits_mask

    @property
    def client_slots(self) -> ClientSlots:
        return self._state.client_slots

    @property
    def is_idle(self) -> bool:
        return not self._state.jobs

    @property
    def changing(self) -> tuple[int, ...]:
        """Numbers that change when a request comes, starts or ends. Cheap: asked for after every step."""
        state, counts = self._state, self._state.counts
        ended = (counts.finished, counts.cancelled, counts.failed)
        return (len(state.running), len(state.waiting), *ended)

    @property
    def stats(self) -> Stats:
        state = self._state
        return Stats(
            running=len(state.running),
            waiting=len(state.waiting),
            slots_used=len(state.running),
            slots_total=state.limits.num_slots,
            cells_used=state.limits.num_cells - state.runner.cells_free,
            cells_total=state.limits.num_cells,
            cells_running=state.runner.cells_held(
                s.slot for s in state.running if s.slot is not None
            ),
            evictions=state.memory.num_evictions,
            **vars(state.counts),
        )

    def check(self) -> None:
        """Raise unless slots, cache and queues agree. Run when idle, and after every test."""
        state = self._state
        state.memory.check()
        if any(s.request_id not in state.jobs for s in (*state.running, *state.waiting)):
            raise RuntimeError("scheduler: a sequence outlived its request")
        slots = [s.slot for s in state.running]
        if None in slots or len(set(slots)) != len(slots):
            raise RuntimeError("scheduler: a slot has two owners or a running sequence none")


def _kind(batch: Batch) -> Kind:
    if batch.is_catching_up:
        return "catching up"
    if batch.num_drafted or batch.has_proposals:
        return "drafted"
    return "begun" if batch.draws and not batch.is_ahead else "plain"
