"""The tokens of a step: drawn together where the runner can do it, otherwise one by one by the sampler.

Drawing together does not change the tokens: a draw depends only on its row, its sampler and its position.
"""

from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence
from segue.engine.sampling.candidates import Candidates, check_given
from segue.engine.scheduling.batch import Batch, DrawnFeedback, DrawnTokens
from segue.engine.scheduling.state import State
from segue.engine.seam import Draw, Logits
from segue.errors import InvalidField

Drawn = tuple[int | None, Logits | None]
"""A token, None if the constraint and the bans together allow none; and if the request asks for scores, its row of
logits as the model gave it."""


class _Ready:
    """A row whose bans, biases and penalties are in place."""

    __slots__ = ("candidates", "raw", "token")

    def __init__(self, candidates: Candidates | None, raw: Logits | None) -> None:
        self.candidates = candidates  # None at a dead end of the constraint
        self.raw = raw
        self.token: int | None = None  # if the runner has drawn it


class Drawing:
    def __init__(self, state: State) -> None:
        self._runner = state.runner
        self._can_draw = self._draws = state.limits.draws
        self._jobs = state.jobs
        self._logits: Logits | None = None
        self._drawn: dict[Sequence, int | None] = {}  # by the step itself
        self._feedback: dict[Sequence, float] = {}  # of these draws
        self._ready: dict[Sequence, _Ready | Exception] = {}

    def begin(
        self, batch: Batch, logits: Logits, drawn: DrawnTokens, feedback: DrawnFeedback
    ) -> None:
        """Take the logits of a step. The runner draws the first token of every sequence for which it can.

        If the step was begun with draws, `drawn` and `feedback` are what these gave. The runner is not asked then,
        since the next step may be open. An error with one sequence is raised by `draw` for that sequence.
        """
        self._logits = logits
        self._ready.clear()
        self._drawn = dict(zip(batch.draws, drawn, strict=True)) if drawn else {}
        self._feedback = dict(zip(batch.draws, feedback, strict=True)) if feedback else {}
        if None in drawn:
            for sequence, token in self._drawn.items():
                sequence.num_undrawn += token is None
        self._draws = self._can_draw and not drawn
        if self._draws:
            self._draw_together(batch)

    def _draw_together(self, batch: Batch) -> None:
        draws: list[Draw] = []
        prepared: list[_Ready] = []
        end = 0
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            end += span.num_logits
            num_draft = span.past + len(span.tokens) - len(sequence.tokens)
            is_next = 0 <= num_draft < span.num_logits and sequence.has_draws
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
        token = self._drawn.pop(sequence, None)
        if token is not None:
            if sequence.sampler.keeps_distribution:
                return token, self._drawn_from(job, sequence, number)
            if sequence in self._feedback:
                sequence.sampler.follow(self._feedback[sequence])
            return token, self._row(number) if job.needs_scores else None
        ready = self._ready.pop(sequence, None)
        if isinstance(ready, Exception):
            raise ready
        if ready is None:
            ready = self._prepared(job, sequence, number)
            draw = self._in_cuts(sequence, ready, number) if self._draws else None
            if draw is not None:
                [ready.token] = self._runner.draw([draw])
        return self._token(sequence, ready), ready.raw

    def _drawn_from(self, job: Job, sequence: Sequence, number: int) -> Logits | None:
        """Let the sampler make the same draw, so that it has its distribution: kernels run meanwhile."""
        ready = self._prepared(job, sequence, number)
        self._token(sequence, ready)
        return ready.raw

    def _row(self, number: int) -> Logits:
        if self._logits is None:
            raise RuntimeError("drawing: a step begins with its logits")
        row: Logits = self._logits[number]
        return row

    def _prepared(self, job: Job, sequence: Sequence, number: int) -> _Ready:
        row = self._row(number)
        check_given(row)
        raw = row.copy() if job.needs_scores else None
        if sequence.guide is not None and not sequence.guide.apply(row):
            return _Ready(None, raw)
        return _Ready(sequence.sampler.admitted(row, sequence.num_output), raw)

    def _in_cuts(self, sequence: Sequence, ready: _Ready, number: int) -> Draw | None:
        cuts = sequence.sampler.cuts(sequence.num_output)
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
