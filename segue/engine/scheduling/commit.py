"""Turns the logits of a step into tokens, text and events, and ends finished sequences and requests."""

import logging

import numpy as np

from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence
from segue.engine.sampling.scores import Scores, score, score_drawn
from segue.engine.scheduling.ahead import tell_late
from segue.engine.scheduling.batch import Batch, DrawnFeedback, DrawnTokens
from segue.engine.scheduling.drawing import Drawing
from segue.engine.scheduling.state import State
from segue.engine.seam import Logits, Span
from segue.errors import EngineFault, RequestError, SegueError
from segue.types import Event, Failed, TokenScore

log = logging.getLogger("segue.scheduler")

StepEvents = dict[str, list[Event]]  # by the ids of their requests


class Committer:
    def __init__(self, state: State) -> None:
        self._state = state
        self._vocab = state.vocab
        self._limits = state.limits
        self._clock = state.clock
        self._memory = state.memory
        self._jobs = state.jobs
        self._waiting = state.waiting
        self._running = state.running
        self._counts = state.counts
        self._drawing = Drawing(state)
        self._logits: Logits = np.empty((0, 0), np.float32)  # of the step

    def commit(
        self, batch: Batch, logits: Logits, drawn: DrawnTokens, feedback: DrawnFeedback
    ) -> StepEvents:
        batch.check(logits, self._limits.vocab_size)
        events: StepEvents = {}
        now = self._clock()
        self._logits = logits
        self._counts.steps += 1
        self._counts.prefilled_tokens += batch.num_prompt_rows
        # What goes wrong in the runner is not one request's failure, so it is not called while requests advance.
        self._memory.defer()
        self._leave_late(batch, drawn)
        self._counts.stepped += len(batch.sequences) - len(batch.void)
        self._drawing.begin(batch, logits, drawn, feedback)
        row = 0
        before = self._counts.completion_tokens
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            row += span.num_logits
            job = self._jobs.get(sequence.request_id)
            if job is None or sequence in batch.void:
                continue
            try:
                told = self._advance(job, sequence, span, row, now)
            except Exception as error:
                told = self._fail(job, error)
            if sequence.request_id in events:
                events[sequence.request_id] += told
            elif told:
                events[sequence.request_id] = told
        if self._state.ahead is not None:
            self._mark_void(self._state.ahead, batch, drawn)
            tell_late(self._state.ahead, self._state.runner)
        else:
            self._memory.settle()
        longest = max([len(sequence.tokens) for sequence in batch.sequences], default=0)
        self._counts.longest = max(self._counts.longest, longest)
        batch.num_tokens = self._counts.completion_tokens - before
        return events

    def _leave_late(self, batch: Batch, drawn: DrawnTokens) -> None:
        """Rows whose masks are not found yet are computed again when they are: nobody waits for a slow constraint."""
        for sequence, token in zip(batch.draws, drawn, strict=bool(drawn)):
            if token is None and sequence.awaits_mask and sequence not in batch.void:
                batch.void.add(sequence)
                self._memory.trim(sequence)

    def _mark_void(self, ahead: Batch, batch: Batch, drawn: DrawnTokens) -> None:
        """Mark rows of the open step that took what is not the sequence's next token."""
        lost = {s for s, token in zip(batch.draws, drawn, strict=True) if token is None}
        for sequence, span in zip(ahead.sequences, ahead.spans, strict=True):
            is_next = sequence.slot is not None and span.past == sequence.computed
            is_foreseen = span.tokens[0] < 0 or span.tokens[0] == sequence.tokens[-1]
            if sequence in lost or not (is_next and is_foreseen):
                ahead.void.add(sequence)

    def _advance(
        self, job: Job, sequence: Sequence, span: Span, row: int, now: float
    ) -> list[Event]:
        """Events of one sequence, whose rows of logits are those before `row`, as many as its span asks for."""
        _, tokens, past, num_logits, *_ = span
        end, num_tokens = past + len(tokens), len(sequence.tokens)
        if sequence.scores is not None and sequence.is_scoring:
            _check(sequence.score_prompt(end, self._logits[row - num_logits : row]))
        sequence.computed = min(end, num_tokens)
        if end < num_tokens:
            self._memory.remember(sequence)
            if end == sequence.checkpoint_at:
                self._memory.keep_checkpoint(sequence)
            return [] if sequence.has_read_prompt else job.read(sequence, now)
        events: list[Event] = []
        if not sequence.has_read_prompt:
            sequence.has_read_prompt = True
            self._memory.remember(sequence)
            if sequence.leader is None:
                self._counts.prompt_tokens += sequence.num_prompt
                self._counts.cached_tokens += sequence.num_cached
                events += job.prompted(sequence, now)
            else:
                sequence.leader.num_followers -= 1
        elif not self._limits.can_trim:
            self._memory.outgrow(sequence)
        if end > num_tokens and sequence.has_draws:
            events += self._generate(job, sequence, span, row, now)
        elif sequence.has_draws:
            self._draw(job, sequence, None, row - 1, now)
            if sequence.cause is None:
                events += job.progressed(sequence)
        elif sequence.ending is not None:  # a row in vain: there was a mask to wait for
            sequence.end()
        else:
            sequence.cause, sequence.last_token_s = "max_tokens", now
            self._score_next(sequence, self._logits[row - 1 : row])
        if sequence.cause is not None:
            events += self._end(job, sequence)
        elif sequence.is_full:
            self._memory.shift(sequence)
        return events

    def _score_next(self, sequence: Sequence, last: Logits) -> None:
        """What of the token after the last is wanted of a sequence that draws none. `last`: that row of the logits."""
        if sequence.watched:
            chances = score(last, sequence.watched, 0)
            _check(chances)
            sequence.chances.append(chances.logprobs.tolist())
        if sequence.num_next:
            sequence.following = score(last, [0], sequence.num_next)
            _check(sequence.following)

    def _end(self, job: Job, sequence: Sequence) -> list[Event]:
        self._running.remove(sequence)
        self._memory.retire(sequence, keep=job.is_useful(sequence))
        events = job.finished(sequence)
        self._waiting.extendleft(reversed(job.take_more()))
        self._counts.prompt_s += 0.0 if sequence.leader else sequence.prompt_s
        self._counts.decode_s += sequence.decode_s
        if job.is_over:
            self._state.close(sequence.request_id)
            self._counts.finished += 1
        return events

    def _generate(
        self, job: Job, sequence: Sequence, span: Span, row: int, now: float
    ) -> list[Event]:
        """Draw one token, and one more for each accepted draft token (speculative decoding). Each has its own event."""
        draft = list(span.tokens[len(sequence.tokens) - span.past :])
        events: list[Event] = []
        certain = draft if span.num_logits <= len(draft) else []
        num_certain, num_drawn = len(certain), 0
        for number in range(row - len(draft) - 1, row):
            guide = sequence.guide
            if num_drawn and guide is not None and not self._state.mask_wait.wait(guide):
                break
            token = certain[num_drawn] if num_drawn < num_certain else None
            self._draw(job, sequence, token, number, now)
            num_drawn += 1
            if sequence.cause is not None:
                break
            events += job.progressed(sequence)
            if not sequence.has_draws or draft[num_drawn - 1 : num_drawn] != sequence.tokens[-1:]:
                break
        sequence.computed = len(sequence.tokens) - 1
        num_accepted = num_drawn - 1
        if num_accepted < len(draft):
            self._memory.trim(sequence)
        self._counts.drafted(len(draft), num_accepted)
        return events

    def _draw(
        self, job: Job, sequence: Sequence, token: int | None, number: int, now: float
    ) -> None:
        """Append one token to the sequence: the one that is certain, or one drawn from row `number` of the logits."""
        raw: Logits | None = None
        if token is None:
            token, raw = self._drawing.draw(job, sequence, number)
        if token is None:
            guide = sequence.guide
            sequence.cause = "constraint" if guide is not None and guide.is_whole else "dead_end"
            if guide is not None and guide.was_over:
                sequence.end_before_shift()
            return
        drawn: TokenScore | None = None
        if raw is not None:
            num_top, asked = job.request.num_top, job.request.logprob_token_ids
            drawn_from = sequence.sampler.distribution
            if drawn_from is None:
                scores = score(raw[None], [token], num_top, asked)
                _check(scores)
            else:
                scores = score_drawn(drawn_from, token, num_top, asked)
            drawn = scores.tokens([token], self._vocab.piece)[0]
            if sequence.watched:
                odds = raw[list(sequence.watched)] - raw[token]
                sequence.chances.append((odds + scores.logprobs[0]).tolist())
        job.accept(sequence, token, drawn, now)
        self._counts.completion_tokens += 1

    def _fail(self, job: Job, error: Exception) -> list[Event]:
        """An error with one sequence fails its request only: the others are not affected."""
        request_id = job.request.request_id
        if isinstance(error, RequestError):  # for example: no token is left to draw
            told: SegueError = error
        elif isinstance(error, EngineFault):  # of several models one may be broken
            told = EngineFault(f"{job.request.model}: {error.message}")
        else:
            log.error("request %s failed", request_id, exc_info=error)
            told = EngineFault("the engine failed on this request")
        self._state.drop(request_id, keep=False)
        self._counts.failed += 1
        return [Failed(told.code, told.message, told.param)]


def _check(scores: Scores) -> None:
    """Raise if a score is not finite: then the row of logits had NaN or infinities."""
    if not np.isfinite(scores.logprobs).all():
        raise EngineFault("the model produced logits that are not numbers")
