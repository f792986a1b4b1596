"""What is computed next, and what follows from it: next_batch → Runner.decode → commit.

Each step carries one row for every decoding sequence and then prompt chunks, first come first served, up to the
row budget; so a long prompt never stalls running streams for more than one chunk. A prompt that shares more with a
prompt now being read than with anything cached waits for it, instead of computing the same twice.

When cells run out and nothing cached is left to evict, the youngest sequence is preempted: its tokens stay, its KV is
computed again later. The oldest one can always go on, so everything finishes.
"""

import logging
from collections.abc import Callable, Iterable

import numpy as np

from segue.engine.constraints.guide import wait_for
from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence
from segue.engine.sampling.scores import Scores, score, score_drawn
from segue.engine.scheduling.batch import Batch, Counts
from segue.engine.scheduling.memory import Memory
from segue.engine.scheduling.prefix_cache import Match, common_length
from segue.engine.scheduling.waiting import WaitingQueue
from segue.engine.seam import Logits, Runner, Span, Vocab
from segue.errors import EngineFault, InvalidField, RequestError, SegueError
from segue.types import Event, Failed, Stats, TokenScore

log = logging.getLogger("segue.scheduler")

StepEvents = list[tuple[str, Event]]  # events with the id of their request

_MIN_SHARED = 32  # tokens worth waiting for another prompt
_MAX_LOOKAHEAD = 256  # waiting sequences looked at in one step
_MAX_FORCED = 32  # tokens of one sequence, all its constraint's choice, taken in one step
_MASK_WAIT_S = 0.005  # the longest that a step waits for slow constraints


class Scheduler:
    def __init__(
        self, runner: Runner, vocab: Vocab, chunk_rows: int, clock: Callable[[], float]
    ) -> None:
        self._runner = runner
        self._vocab = vocab
        self._limits = runner.capabilities
        self._chunk_rows = min(chunk_rows, self._limits.max_rows)
        self._clock = clock
        self._memory = Memory(runner)
        self._jobs: dict[str, Job] = {}
        self._waiting = WaitingQueue(lambda s: self._jobs[s.request_id].request.tenant)
        self._running: list[Sequence] = []  # oldest first
        self.awaits_mask = False  # a sequence sat out the last batch: no mask yet
        self._counts = Counts()

    # --- requests come and go --------------------------------------------------------------------

    def add(self, job: Job) -> None:
        self._jobs[job.request.request_id] = job
        self._waiting.extend(job.sequences)

    def cancel(self, request_id: str) -> None:
        """Free all it holds now. Its computed prefix stays in the cache for the next try."""
        if self._jobs.pop(request_id, None) is not None:
            self._drop(request_id)
            self._counts.cancelled += 1

    @property
    def is_idle(self) -> bool:
        return not self._jobs

    @property
    def stats(self) -> Stats:
        counts, limits = self._counts, self._limits
        return Stats(
            running=len(self._running),
            waiting=len(self._waiting),
            slots_used=len(self._running),
            slots_total=limits.num_slots,
            cells_used=limits.num_cells - self._runner.cells_free,
            cells_total=limits.num_cells,
            evictions=self._memory.num_evictions,
            **vars(counts),
        )

    def check(self) -> None:
        """Raise unless slots, cache and queues agree. Run when idle, and after every test."""
        self._memory.check()
        if any(s.request_id not in self._jobs for s in (*self._running, *self._waiting)):
            raise RuntimeError("scheduler: a sequence outlived its request")
        slots = [s.slot for s in self._running]
        if None in slots or len(set(slots)) != len(slots):
            raise RuntimeError("scheduler: a slot has two owners or a running sequence none")

    # --- one step: what to compute ---------------------------------------------------------------

    def next_batch(self) -> Batch | None:
        batch = Batch()
        self.awaits_mask = False
        decoding = [s for s in self._running if s.is_decoding]
        wait_for((s.guide for s in decoding if s.guide is not None), _MASK_WAIT_S)
        reading = [s for s in self._running if not s.is_decoding]
        for place, sequence in enumerate(decoding):
            if sequence.slot is not None:  # it may have been preempted for an older one
                self._decode_row(batch, sequence, len(decoding) - place)
        for sequence in reading:
            if sequence.slot is not None:
                self._prompt_chunk(batch, sequence)
        self._admit(batch)
        return batch if batch.spans else None

    def _decode_row(self, batch: Batch, sequence: Sequence, num_left: int) -> None:
        if batch.num_rows >= self._limits.max_rows:
            return
        if sequence.awaits_mask:
            self.awaits_mask = True
            return
        while sequence.slot is not None:  # it may be the youngest itself
            if self._memory.make_room(batch.num_cells + self._cells(sequence, 1)):
                draft = self._draft(batch, sequence, num_left)
                num_logits = 1 if self._is_certain(sequence, draft) else 1 + len(draft)
                self._append(batch, sequence, 1, num_logits, draft)
                return
            self._preempt_youngest(batch)

    def _draft(self, batch: Batch, sequence: Sequence, num_left: int) -> list[int]:
        """Guesses fill rows that cost nothing, and cells that nobody has to give up."""
        limits = self._limits
        forced = () if sequence.guide is None else sequence.guide.forced
        limit = min(
            _MAX_FORCED if forced else (limits.free_rows - batch.num_rows) // num_left - 1,
            limits.max_rows - batch.num_rows - 1,
            sequence.max_tokens - sequence.num_output - 1,
            self._runner.cells_free - batch.num_cells - 2 * limits.cells_per_block,
        )
        if limit <= 0 or not limits.can_trim:
            return []
        if forced:  # no guesses: each saves a step of its own
            return list(forced[:limit])
        num_idle = limits.min_rows - batch.num_rows - num_left
        return sequence.drafter.draft(sequence.tokens, limit, num_idle)

    def _is_certain(self, sequence: Sequence, draft: list[int]) -> bool:
        """Whether it can be taken unseen: forced, with nobody asking for scores and no say of the sampler's."""
        if not draft or sequence.guide is None or not sequence.guide.forced:
            return False
        job = self._jobs[sequence.request_id]
        ends_here = any(job.rules.cause(token) is not None for token in draft)
        return sequence.sampler.is_indifferent and not job.needs_scores and not ends_here

    def _prompt_chunk(self, batch: Batch, sequence: Sequence) -> None:
        budget = min(
            self._chunk_rows - batch.num_prompt_rows, self._limits.max_rows - batch.num_rows
        )
        count = min(sequence.num_pending, budget)
        while count > 0 and sequence.slot is not None:
            if self._memory.make_room(batch.num_cells + self._cells(sequence, count)):
                batch.num_prompt_rows += count
                self._append(batch, sequence, count, self._num_logits(sequence, count))
                return
            if len(self._running) == 1:
                raise EngineFault("the KV memory cannot hold one sequence of the model's context")
            if self._running[-1] is sequence and batch.spans:
                return  # others go on; it waits a step for cells
            self._preempt_youngest(batch)

    def _num_logits(self, sequence: Sequence, count: int) -> int:
        if sequence.is_scoring:
            return max(0, min(count, sequence.computed + count + 1 - sequence.score_from))
        is_last = count == sequence.num_pending
        return int(is_last and (sequence.max_tokens > 0 or bool(sequence.watched)))

    def _append(
        self,
        batch: Batch,
        sequence: Sequence,
        count: int,
        num_logits: int,
        draft: Iterable[int] = (),
    ) -> None:
        if sequence.slot is None:
            raise RuntimeError("scheduler: a span needs a slot")
        start = sequence.computed
        tokens = [*sequence.tokens[start : start + count], *draft]
        batch.num_cells += self._cells(sequence, len(tokens))
        batch.num_rows += len(tokens)
        batch.spans.append(Span(sequence.slot, tokens, start, num_logits))
        batch.sequences.append(sequence)

    def _cells(self, sequence: Sequence, count: int) -> int:
        block = self._limits.cells_per_block
        return (-(-(sequence.computed + count) // block) - -(-sequence.computed // block)) * block

    # --- admission -------------------------------------------------------------------------------

    def _admit(self, batch: Batch) -> None:
        passed: list[Sequence] = []
        looked_at = 0
        while self._waiting and looked_at < _MAX_LOOKAHEAD and self._has_budget(batch):
            looked_at += 1
            sequence = self._waiting.popleft()
            if sequence.is_waiting_for_leader:
                passed.append(sequence)
                continue
            match = self._memory.match(sequence)
            if self._is_worth_waiting(sequence, match):
                passed.append(sequence)
                continue
            must = not self._running
            if not self._memory.start(sequence, match, batch.num_cells, must):
                self._waiting.appendleft(sequence)
                break
            self._running.append(sequence)
            self._note_start(sequence)
            self._prompt_chunk(batch, sequence)
        self._waiting.extendleft(reversed(passed))

    def _note_start(self, sequence: Sequence) -> None:
        if not sequence.has_read_prompt and sequence.leader is None:
            sequence.num_cached = min(sequence.computed, sequence.num_prompt)
            self._counts.cached_tokens += sequence.num_cached
        if sequence.prompt_started_s is None:
            sequence.prompt_started_s = self._clock()

    def _has_budget(self, batch: Batch) -> bool:
        return batch.num_prompt_rows < self._chunk_rows and batch.num_rows < self._limits.max_rows

    def _is_worth_waiting(self, sequence: Sequence, match: Match | None) -> bool:
        """Somebody is just computing a prefix that is longer than the cached one."""
        if sequence.salt is None or not self._limits.can_trim:
            return False
        cached = match.length if match else 0
        return any(
            other.salt == sequence.salt
            and other.num_pending > 1
            and (not sequence.is_scoring_all or other.scores_for(sequence))
            and common_length(other.tokens, sequence.tokens) >= cached + _MIN_SHARED
            for other in self._running
        )

    def _preempt_youngest(self, batch: Batch) -> None:
        victim = self._running.pop()
        if victim in batch.sequences:
            at = batch.sequences.index(victim)
            span = batch.spans.pop(at)
            del batch.sequences[at]
            batch.num_rows -= len(span.tokens)
            batch.num_cells -= self._cells(victim, len(span.tokens))
        self._memory.retire(victim, keep=False)
        victim.rewind()
        self._waiting.appendleft(victim)
        self._counts.preemptions += 1

    # --- one step: what follows ------------------------------------------------------------------

    def commit(self, batch: Batch, logits: Logits) -> StepEvents:
        batch.check(logits, self._limits.vocab_size)
        told: StepEvents = []
        now = self._clock()
        self._counts.steps += 1
        self._counts.prefilled_tokens += batch.num_prompt_rows
        row = 0
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            rows = logits[row : row + span.num_logits]
            row += span.num_logits
            job = self._jobs.get(sequence.request_id)
            if job is not None:
                told += self._advance_safely(job, sequence, span, rows, now)
        return told

    def _advance_safely(
        self, job: Job, sequence: Sequence, span: Span, rows: Logits, now: float
    ) -> StepEvents:
        """The step itself went well, so what goes wrong here is this request's own affair."""
        try:
            return self._advance(job, sequence, span, rows, now)
        except RequestError as error:  # such as: what it asked for leaves no token to draw
            return self._fail(job, error)
        except Exception:
            log.exception("request %s failed", job.request.request_id)
            return self._fail(job, EngineFault("the engine failed on this request"))

    def _advance(
        self, job: Job, sequence: Sequence, span: Span, rows: Logits, now: float
    ) -> StepEvents:
        scored = sequence.score_prompt(span.past + len(span.tokens), rows)
        if not _are_numbers(rows, scored):
            return self._fail(job, EngineFault("the model produced logits that are not numbers"))
        sequence.computed = min(span.past + len(span.tokens), len(sequence.tokens))
        if sequence.num_pending:
            self._memory.remember(sequence)
            reading = [] if sequence.has_read_prompt else job.read(sequence, now)
            return [(sequence.request_id, event) for event in reading]
        events: list[Event] = []
        if not sequence.has_read_prompt:
            sequence.has_read_prompt = True
            self._memory.remember(sequence)
            if sequence.leader is None:
                self._counts.prompt_tokens += sequence.num_prompt
                events += job.prompted(sequence, now)
        if sequence.max_tokens > 0:
            events += self._generate(job, sequence, span, rows, now)
        else:
            sequence.cause, sequence.last_token_s = "max_tokens", now
            if sequence.watched:
                sequence.chances.append(score(rows[-1:], sequence.watched, 0).logprobs.tolist())
        if sequence.cause is not None:
            self._running.remove(sequence)
            self._memory.retire(sequence, keep=not sequence.is_probe)
            events += job.finished(sequence)
            self._waiting.extendleft(reversed(job.take_more()))
            self._counts.prompt_s += 0.0 if sequence.leader else sequence.prompt_s
            self._counts.decode_s += sequence.decode_s
        if job.is_over:
            del self._jobs[sequence.request_id]
            self._counts.finished += 1
        return [(sequence.request_id, event) for event in events]

    def _generate(
        self, job: Job, sequence: Sequence, span: Span, rows: Logits, now: float
    ) -> list[Event]:
        """Draw a token, and one more for each draft token that was drawn. Each has its own event, drafted or not."""
        events: list[Event] = []
        known = len(sequence.tokens) - span.past
        draft = list(span.tokens[known:])
        certain = draft if len(rows) <= len(draft) else []
        num_drawn = 0
        for row in (*certain, *rows[len(certain) - len(draft) - 1 :]):
            if num_drawn and sequence.guide is not None and not sequence.guide.wait(_MASK_WAIT_S):
                break
            self._draw(job, sequence, row, now)
            num_drawn += 1
            if sequence.cause is not None:
                break
            events += job.progressed(sequence)
            if draft[num_drawn - 1 : num_drawn] != sequence.tokens[-1:]:
                break
        if draft and sequence.slot is not None:
            sequence.computed = len(sequence.tokens) - 1
            num_accepted = num_drawn - 1
            if num_accepted < len(draft):
                self._runner.trim(sequence.slot, sequence.computed)
            sequence.drafter.learn(len(draft), num_accepted)
            self._counts.draft_tokens += len(draft)
            self._counts.draft_accepted += num_accepted
        return events

    def _draw(self, job: Job, sequence: Sequence, row: Logits | int, now: float) -> None:
        """`row`: what to draw from, or the token itself."""
        if isinstance(row, int):
            token: int | None = row
        else:
            raw = row.copy() if job.needs_scores else row
            token = self._sample(sequence, row)
        if token is None:
            sequence.cause = "dead_end"
            return
        drawn: TokenScore | None = None
        if job.needs_scores:
            num_top, drawn_from = job.request.logprobs or 0, sequence.sampler.distribution
            if drawn_from is None:
                scores = score(raw[None], [token], num_top)
            else:
                scores = score_drawn(drawn_from, token, num_top)
            drawn = scores.tokens([token], self._vocab.piece)[0]
            if sequence.watched:
                odds = raw[list(sequence.watched)] - raw[token]
                sequence.chances.append((odds + scores.logprobs[0]).tolist())
        sequence.accept(token, job.text_piece(token), drawn, job.rules.cause(token), now)
        self._counts.completion_tokens += 1

    def _sample(self, sequence: Sequence, row: Logits) -> int | None:
        """None: the sequence's constraint lets nothing follow that may be drawn."""
        guide = sequence.guide
        if guide is None:
            return sequence.sampler.sample(row, sequence.num_output)
        if not guide.apply(row):
            return None
        try:
            return sequence.sampler.sample(row, sequence.num_output)
        except InvalidField:
            return None

    def _fail(self, job: Job, error: SegueError) -> StepEvents:
        request_id = job.request.request_id
        del self._jobs[request_id]
        self._drop(request_id, keep=False)
        self._counts.failed += 1
        return [(request_id, Failed(error.code, error.message, error.param))]

    def _drop(self, request_id: str, keep: bool = True) -> None:
        self._waiting.drop(request_id)
        for sequence in [s for s in self._running if s.request_id == request_id]:
            self._running.remove(sequence)
            self._memory.retire(sequence, keep)


def _are_numbers(rows: Logits, scored: Scores) -> bool:
    """Rows that were scored have been read already: one that is not all numbers scored NaN."""
    others = rows[len(scored) :]
    return bool(np.isfinite(scored.logprobs).all() and np.isfinite(others.max(initial=0.0)))
