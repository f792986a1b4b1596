"""What the next step computes: rows of decoding sequences, prompt chunks, admission and preemption.

Each step carries one row for every decoding sequence and then prompt chunks, first come first served, up to the
row budget; while others decode that is as many rows as keep the step short (pace.py). If a prompt that is being
computed shares a longer prefix with a waiting one than the prefix cache does, the waiting one waits for that prefix.
If slots cannot be trimmed, the other one is made to leave a checkpoint where the two part.

When cells run out and nothing cached is left to evict, the youngest sequence is preempted, or one that matters less
(turns/victims.py): its tokens stay, its KV is computed again later.
"""

from collections import Counter
from collections.abc import Iterable

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.drafts.model import MANY
from segue.engine.scheduling.drafts.proposer import Proposals
from segue.engine.scheduling.forced import MAX_FORCED, Forced
from segue.engine.scheduling.long_prompts import LongPrompts
from segue.engine.scheduling.memory import MIN_SHARED
from segue.engine.scheduling.prefix_cache import Match, common_length
from segue.engine.scheduling.state import State
from segue.engine.scheduling.turns.victims import is_below_share
from segue.engine.seam import Span
from segue.errors import EngineFault

_MAX_LOOKAHEAD = 256  # waiting sequences examined per step
# Those that are passed without a look into the cache: a request may have more prompts, or candidates that wait for one.
_MAX_PASSED = 2048


class Planner:
    def __init__(self, state: State) -> None:
        self._runner = state.runner
        self._limits = state.limits
        self._chunk_rows = state.chunk_rows
        self._pace = state.pace
        self._clock = state.clock
        self._memory = state.memory
        self._forced = Forced(state)
        self._waiting = state.waiting
        self._running = state.running
        self._victims = state.victims
        self._counts = state.counts
        self._mask_wait = state.mask_wait
        self._proposer = state.proposer
        self._text_drafts = state.text_drafts
        # For this step: from texts, and computed for sequences without.
        self._drafted: dict[Sequence, list[int]] = {}
        self._proposed: dict[Sequence, list[int]] = {}
        self._rows_for_prompts = 0  # of this step, that drafts do not take
        self._most_prompt_rows = 0  # of this step
        self._long = LongPrompts(self._chunk_rows)
        self.awaits_mask = False  # one was left out of the last batch: its mask was not ready

    def next_batch(self) -> Batch | None:
        batch = Batch()
        self.awaits_mask = False
        decoding: list[Sequence] = []
        reading: list[Sequence] = []
        for sequence in self._running:
            (decoding if sequence.is_decoding else reading).append(sequence)
        # Forced tokens may be many: they leave rows to prompts, which would wait for as long as there are some.
        self._rows_for_prompts = self._chunk_rows // 2 if reading or self._waiting else 0
        self._mask_wait.begin_step()
        for sequence in decoding:
            if sequence.guide is not None:
                self._mask_wait.wait(sequence.guide)
        self._memory.keep_spare(len(decoding))
        self._drafted = self._text_drafts.plan(decoding)
        self._proposed, num_read = self._propose(decoding)
        batch.has_proposals, batch.is_catching_up = num_read > 0, num_read > MANY
        for place, sequence in enumerate(decoding):
            if sequence.slot is not None:  # it may have been preempted for an older one
                self._decode_row(batch, sequence, len(decoding) - place)
        if reading or self._waiting:
            self._most_prompt_rows = self._pace.rows(len(decoding))
            self._read_prompts(batch, reading)
        return batch if batch.spans else None

    def _decode_row(self, batch: Batch, sequence: Sequence, num_left: int) -> None:
        if batch.num_rows >= self._limits.max_rows:
            return
        if sequence.awaits_mask:
            self.awaits_mask = True
            return
        num_cells = self._cells(sequence, 1)  # mostly 0: its last block has room for one more
        while sequence.slot is not None:  # it may be the victim itself
            if not num_cells or self._memory.make_room(batch.num_cells + num_cells):
                draft = self._draft(batch, sequence, num_left)
                num_logits = 1 if self._forced.is_certain(sequence, draft) else 1 + len(draft)
                self._append(batch, sequence, 1, num_logits, draft)
                return
            self._preempt(batch, self._victims.next)

    def _propose(self, decoding: list[Sequence]) -> Proposals:
        """Drafts that are computed, for sequences without a draft from the constraint or from the text itself."""
        proposer = self._proposer
        count = proposer.num_wanted(len(decoding)) if proposer else 0
        count = min(count, self._limits.most_returnable - 1)
        if not proposer or count <= 0:
            return Proposals({}, 0)
        return proposer.propose(
            (sequence, min(count, sequence.num_left - 1))
            for sequence in decoding
            if not (sequence.awaits_mask or sequence.forced or sequence in self._drafted)
        )

    def _draft(self, batch: Batch, sequence: Sequence, num_left: int) -> list[int]:
        """Draft tokens for speculative decoding. They use only spare rows and cells, so they preempt no sequence.

        `num_left`: sequences that have no row yet, this one among them.
        """
        limits = self._limits
        drafted = self._drafted.get(sequence, [])
        draft = sequence.forced or drafted or self._proposed.get(sequence, [])
        if not draft:
            return []
        limit = min(
            MAX_FORCED,
            limits.most_returnable - 1,
            limits.max_rows - batch.num_rows - num_left - self._rows_for_prompts,
            sequence.num_left - 1,
            self._runner.cells_free - batch.num_cells - 2 * limits.cells_per_block,
        )
        draft = list(draft[: max(limit, 0)])
        batch.num_drafted += len(draft) if drafted else 0
        return draft

    def _read_prompts(self, batch: Batch, reading: list[Sequence]) -> None:
        """Chunks of prompts that are being read, and of those that can start, the oldest first.

        Long ones leave rows to others, and then get what these have left.
        """
        self._long.begin_step(reading, self._most_prompt_rows)
        for sequence in reading:
            if sequence.slot is not None:
                self._prompt_chunk(batch, sequence)
        self._admit(batch)
        if self._long.has_left_rows:
            self._long.end()
            for sequence in [s for s in self._running if not s.is_decoding]:
                if sequence in batch.sequences:
                    self._extend(batch, sequence)
                else:
                    self._prompt_chunk(batch, sequence, may_preempt=not batch.spans)
            self._admit(batch)

    def _prompt_chunk(self, batch: Batch, sequence: Sequence, may_preempt: bool = True) -> None:
        count = self._chunk(batch, sequence)
        if not count and sequence.awaits_mask:
            self.awaits_mask = True
        while count > 0 and sequence.slot is not None:
            if self._memory.make_room(batch.num_cells + self._cells(sequence, count)):
                batch.num_prompt_rows += count
                self._long.read(self._waiting.tenant_of(sequence), sequence.num_pending, count)
                self._append(batch, sequence, count, self._num_logits(sequence, count))
                return
            if not may_preempt:
                return
            if len(self._running) == 1 and not self._memory.is_holding:
                raise EngineFault("the KV memory cannot hold one sequence of the model's context")
            victim = self._victims.next
            if victim is sequence and (batch.spans or self._memory.is_holding):
                return  # others run, or end soon; it waits for cells until the next step
            self._preempt(batch, victim)

    def _chunk(self, batch: Batch, sequence: Sequence, num_taken: int = 0) -> int:
        """How many rows it may have in this step. `num_taken`: how many it has already."""
        count = min(sequence.num_pending, num_taken + self._rows_left(batch, sequence))
        if sequence.computed < sequence.checkpoint_at:
            count = min(count, sequence.checkpoint_at - sequence.computed)
        if count < sequence.num_pending:
            return count
        # One that was preempted may wait for a mask: then its last row is for a later step, as it is while decoding.
        stops_before = sequence.awaits_mask or (count > 1 and self._stops_at_fork(sequence))
        return count - stops_before

    def _rows_left(self, batch: Batch, sequence: Sequence) -> int:
        """How many more rows it may take."""
        left = self._most_prompt_rows - batch.num_prompt_rows
        left = max(0, min(left, self._limits.max_rows - batch.num_rows))
        return self._long.limit(self._waiting.tenant_of(sequence), sequence.num_pending, left)

    def _extend(self, batch: Batch, sequence: Sequence) -> None:
        """Let it read more, if rows and cells are left: nobody is preempted for that."""
        at = batch.sequences.index(sequence)
        before = batch.spans[at]
        num_before = len(before.tokens)
        count = self._chunk(batch, sequence, num_before)
        added = self._cells(sequence, count) - self._cells(sequence, num_before)
        if count <= num_before or not self._memory.make_room(batch.num_cells + added):
            return
        tokens = sequence.tokens[before.past : before.past + count]
        num_logits = self._num_logits(sequence, count)
        batch.spans[at] = before._replace(tokens=tokens, num_logits=num_logits)
        batch.num_rows += count - num_before
        batch.num_prompt_rows += count - num_before
        batch.num_cells += added

    def _shorten(self, batch: Batch, sequence: Sequence) -> None:
        """Let its span end at its checkpoint, if it has one and goes beyond."""
        at = batch.sequences.index(sequence) if sequence in batch.sequences else -1
        count = sequence.checkpoint_at - sequence.computed
        if at < 0 or len(batch.spans[at].tokens) <= count:
            return
        before = batch.spans[at]
        num_fewer = len(before.tokens) - count
        batch.num_cells -= self._cells(sequence, len(before.tokens)) - self._cells(sequence, count)
        batch.num_rows -= num_fewer
        batch.num_prompt_rows -= num_fewer
        num_logits = self._num_logits(sequence, count)
        batch.spans[at] = before._replace(tokens=before.tokens[:count], num_logits=num_logits)

    def _stops_at_fork(self, sequence: Sequence) -> bool:
        """Whether this span must end before the last prompt token, where a slot that cannot be trimmed is forked."""
        is_shared = sequence.num_followers > 0 and sequence.salt is not None
        return is_shared and not sequence.has_read_prompt and not self._limits.can_trim

    def _num_logits(self, sequence: Sequence, count: int) -> int:
        if sequence.is_scoring:
            return max(0, min(count, sequence.computed + count + 1 - sequence.score_from))
        is_last = count == sequence.num_pending
        return int(is_last and sequence.needs_last_row)

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
        drafted = [*draft]
        tokens = [*sequence.tokens[start : start + count], *drafted]
        batch.num_cells += self._cells(sequence, len(tokens))
        batch.num_rows += len(tokens)
        batch.spans.append(
            Span(sequence.slot, tokens, start, num_logits, sequence.adapters, 1 + len(drafted))
        )
        batch.sequences.append(sequence)

    def _cells(self, sequence: Sequence, count: int) -> int:
        block = self._limits.cells_per_block
        return (-(-(sequence.computed + count) // block) - -(-sequence.computed // block)) * block

    # --- admission -------------------------------------------------------------------------------

    def _admit(self, batch: Batch) -> None:
        passed: list[Sequence] = []
        preempted: list[Sequence] = []
        looked_at = 0
        shares: Counter[str] | None = None  # once memory is full
        hopeless: set[str] = set()  # tenants that have their share then
        while self._waiting and self._has_budget(batch):
            # However many wait: a long queue must not delay the step.
            if looked_at >= _MAX_LOOKAHEAD or len(passed) >= _MAX_PASSED:
                break
            if shares is not None and hopeless.issuperset(self._waiting.tenants):
                break
            sequence = self._waiting.popleft()
            tenant = self._waiting.tenant_of(sequence)
            if shares is not None and not is_below_share(tenant, shares):
                hopeless.add(tenant)
                looked_at += 1
                passed.append(sequence)
                continue
            if self._waits_for_leader(batch, sequence) or not self._rows_left(batch, sequence):
                passed.append(sequence)
                continue
            looked_at += 1
            match = self._memory.match(sequence)
            if self._is_worth_waiting(batch, sequence, match):
                passed.append(sequence)
                continue
            if not self._start(batch, sequence, match, preempted):
                passed.append(sequence)
                shares = self._victims.shares()  # only who is below may still start, by preemption
                continue
            self._running.append(sequence)
            self._note_start(sequence)
            self._prompt_chunk(batch, sequence)
            shares = None if shares is None else self._victims.shares()
        self._waiting.extendleft(reversed(passed))
        self._waiting.extendleft(preempted)  # of a tenant's equals the oldest was preempted last

    def _start(
        self, batch: Batch, sequence: Sequence, match: Match | None, preempted: list[Sequence]
    ) -> bool:
        """Admit the sequence. If memory is full, preempt a sequence of a tenant that holds more than its share.

        What is preempted is added to the list: it goes in front of those that wait, also of those looked at before.
        """
        while True:
            must = not self._running and not self._memory.is_holding
            if self._memory.start(sequence, match, batch.num_cells + self._long.num_cells, must):
                return True
            victim = self._victims.for_share(self._waiting.tenant_of(sequence))
            if victim is None:
                return False
            self._take_back(batch, victim)
            preempted.append(victim)
            match = self._memory.match(sequence)  # it may have been in the slot of that one

    def _waits_for_leader(self, batch: Batch, sequence: Sequence) -> bool:
        """Whether the candidate must wait: its leader has not computed the prompt up to where it can be forked."""
        leader = sequence.leader
        if leader is None or leader.has_read_prompt:
            return False
        is_forkable = self._stops_at_fork(leader) and leader.is_at_fork
        return not (is_forkable and leader in batch.sequences)

    def _note_start(self, sequence: Sequence) -> None:
        """Its first start says when its prompt began and how much was cached; after a preemption both stay."""
        if sequence.prompt_started_s is not None:
            return
        sequence.prompt_started_s = self._clock()
        if sequence.leader is None:
            sequence.num_cached = min(sequence.computed, sequence.num_prompt)

    def _has_budget(self, batch: Batch) -> bool:
        has_rows = batch.num_prompt_rows < self._most_prompt_rows
        return has_rows and batch.num_rows < self._limits.max_rows

    def _is_worth_waiting(self, batch: Batch, sequence: Sequence, match: Match | None) -> bool:
        """Whether another sequence is now computing a shared prefix that is longer than the cached one."""
        if sequence.salt is None:
            return False
        mates = [s for s in self._running if s.salt == sequence.salt and s.num_pending > 1]
        if not self._limits.can_trim:
            return any(self._leaves_checkpoint(batch, s, sequence, match) for s in mates)
        cached = match.length if match else 0
        return any(
            (not sequence.is_scoring_all or other.scores_for(sequence))
            and common_length(other.tokens, sequence.tokens) >= cached + MIN_SHARED
            for other in mates
        )

    def _leaves_checkpoint(
        self, batch: Batch, other: Sequence, sequence: Sequence, match: Match | None
    ) -> bool:
        """Whether the other, which is reading, will leave a checkpoint that is worth waiting for.

        Unless it will leave one anyway, it is made to leave one where the two part.
        """
        if sequence.is_scoring_all and not (other.is_scoring_all and other.scores_for(sequence)):
            return False
        common = common_length(other.tokens, sequence.tokens)
        common = min(self._memory.most_shared(sequence, common), len(other.tokens) - 1)
        cached = match.length if match else 0
        is_own = match is not None and match.slot == other.slot  # which it is about to outgrow
        least = MIN_SHARED if is_own else MIN_SHARED + cached
        if other.checkpoint_at <= other.computed < common and common >= least:
            other.checkpoint_at = common
            self._shorten(batch, other)
        is_coming = other.computed < other.checkpoint_at <= common
        return is_coming and other.checkpoint_at >= MIN_SHARED + cached

    def _preempt(self, batch: Batch, victim: Sequence) -> None:
        """Take its slot. Its tokens stay, and it goes to the front of its tenant's queue."""
        self._take_back(batch, victim)
        self._waiting.appendleft(victim)

    def _take_back(self, batch: Batch, victim: Sequence) -> None:
        """Take its slot, and what this step computes for it."""
        self._running.remove(victim)
        if victim in batch.sequences:
            at = batch.sequences.index(victim)
            span = batch.spans.pop(at)
            del batch.sequences[at]
            batch.num_rows -= len(span.tokens)
            if not victim.is_decoding:
                batch.num_prompt_rows -= len(span.tokens)
            elif victim in self._drafted:
                batch.num_drafted -= len(span.tokens) - 1
            batch.num_cells -= self._cells(victim, len(span.tokens))
        self._memory.retire(victim, keep=False)
        victim.rewind()
        self._counts.preemptions += 1
