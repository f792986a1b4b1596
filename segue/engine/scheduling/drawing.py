"""The tokens of a step: drawn together where the runner can do it, otherwise one by one by the sampler.

Drawing together does not change the tokens: a draw depends only on its row, its sampler and its position.
"""

from typing import NamedTuple

from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence
from segue.engine.sampling.candidates import Candidates
from segue.engine.scheduling.batch import Batch, DrawnTokens
from segue.engine.scheduling.state import State
from segue.engine.seam import Draw, Logits
from segue.errors import InvalidField


class Drawn(NamedTuple):
    token: int | None  # None: the constraint and the bans together allow no token
    raw: Logits | None  # the logits as the model gave them, if the request asks for scores


class _Ready:
    """A row whose bans, biases and penalties are in place."""

    __slots__ = ("candidates", "raw", "token")

    def __init__(
        self, candidates: Candidates | None, raw: Logits | None, token: int | None = None
    ) -> None:
        self.candidates = candidates  # None at a dead end of the constraint, or with a token
        self.raw = raw
        self.token = token  # if the runner has drawn it


class Drawing:
    def __init__(self, state: State) -> None:
        self._runner = state.runner
        self._can_draw = self._draws = state.limits.draws
        self._jobs = state.jobs
        self._logits: Logits | None = None
        self._ready: dict[Sequence, _Ready | Exception] = {}

    def begin(self, batch: Batch, logits: Logits, drawn: DrawnTokens) -> None:
        """Take the logits of a step. The runner draws the first token of every sequence for which it can.

        If the step was begun with draws, it has `drawn` already, and may not be asked now: the next step may be open.
        An error with one sequence is raised by `draw` for that sequence.
        """
        self._logits = logits
        self._ready.clear()
        self._draws = self._can_draw and not drawn
        if drawn:
            self._take(batch, logits, drawn)
        elif self._draws:
            self._draw_together(batch)

    def _take(self, batch: Batch, logits: Logits, drawn: DrawnTokens) -> None:
        for (sequence, draw), token in zip(batch.draws.items(), drawn, strict=True):
            job = self._jobs.get(sequence.request_id)
            if token is None:
                sequence.num_undrawn += 1
            elif job is not None:
                raw = logits[draw.row] if job.needs_scores else None
                self._ready[sequence] = _Ready(None, raw, token)

    def _draw_together(self, batch: Batch) -> None:
        draws: list[Draw] = []
        prepared: list[_Ready] = []
        end = 0
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            end += span.num_logits
            num_draft = span.past + len(span.tokens) - len(sequence.tokens)
            is_next = 0 <= num_draft < span.num_logits and sequence.max_tokens > 0
            job = self._jobs.get(sequence.request_id) if is_next else None
            if job is None:
                continue
            number = end - 1 - num_draft
            try:
                ready = self._prepared(job, sequence, number)
                draw = self._in_cuts(sequence, ready, number)
            except Exception as error:
                self._ready[sequence] = error
                continue
            self._ready[sequence] = ready
            if draw is not None:
                draws.append(draw)
                prepared.append(ready)
        for ready, token in zip(prepared, self._runner.draw(draws) if draws else (), strict=True):
            ready.token = token

    def draw(self, job: Job, sequence: Sequence, number: int) -> Drawn:
        """The next token of the sequence, from row `number` of the step's logits."""
        ready = self._ready.pop(sequence, None)
        if isinstance(ready, Exception):
            raise ready
        if ready is None:
            ready = self._prepared(job, sequence, number)
            draw = self._in_cuts(sequence, ready, number) if self._draws else None
            if draw is not None:
                [ready.token] = self._runner.draw([draw])
        return Drawn(self._token(sequence, ready), ready.raw)

    def _prepared(self, job: Job, sequence: Sequence, number: int) -> _Ready:
        if self._logits is None:
            raise RuntimeError("drawing: a step begins with its logits")
        row = self._logits[number]
        raw = row.copy() if job.needs_scores else None
        if sequence.guide is not None and not sequence.guide.apply(row):
            return _Ready(None, raw)
        return _Ready(sequence.sampler.admitted(row, sequence.num_output), raw)

    def _in_cuts(self, sequence: Sequence, ready: _Ready, number: int) -> Draw | None:
        cuts = sequence.sampler.cuts
        if cuts is None or ready.candidates is None:
            return None
        return Draw(number, sequence.sampler.point(sequence.num_output), cuts)

    def _token(self, sequence: Sequence, ready: _Ready) -> int | None:
        if ready.token is not None or ready.candidates is None:
            return ready.token
        try:
            return sequence.sampler.choose(ready.candidates, sequence.num_output)
        except InvalidField:
            if sequence.guide is None:
                raise
            return None
