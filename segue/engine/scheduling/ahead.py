"""Asynchronous scheduling: the next step is planned, and begun, before the tokens of the open one are known.

The runner draws the tokens of a step itself and takes them in the next, so no processor waits for text and events. This
holds for steps with one row of each running sequence, if every draw depends on nothing but its row and its position.
Whatever else is to be done (a prompt, a draft, a sequence that ends, a message) happens between steps, with none open.

Tokens do not change: a sequence that ends unexpectedly has a row too many in the open step, which nobody reads.
"""

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.state import State
from segue.engine.seam import Draw, Span


class Ahead:
    def __init__(self, state: State) -> None:
        limits = state.limits
        can_trim = limits.can_trim  # or a row too many could not be taken back
        self._most_rows = limits.rows_ahead if can_trim and state.draft is None else 0
        self._limits = limits
        self._runner = state.runner
        self._jobs = state.jobs
        self._running = state.running
        self._memory = state.memory

    def tell(self, batch: Batch) -> None:
        """Give the batch its draws, if the runner can make all of them."""
        num_rows = len(batch.spans)
        if num_rows != batch.num_rows or num_rows > self._most_rows or batch.num_prompt_rows:
            return
        draws: list[Draw] = []
        for row, sequence in enumerate(batch.sequences):
            draw = self._draw(sequence, row, sequence.num_output)
            if draw is None:
                return
            draws.append(draw)
        batch.draws = draws

    def following(self, batch: Batch) -> Batch | None:
        """The batch after this one, which is open and whose tokens are not known. None: it must be ended first.

        Every sequence goes on, except those whose last token this one draws.
        """
        if len(batch.sequences) != len(self._running) or batch.void or self._memory.has_deferred:
            return None
        made = Batch()
        num_spare, block = self._limits.free_rows, self._limits.cells_per_block
        num_left = len(batch.sequences)
        for place, (sequence, before) in enumerate(zip(batch.sequences, batch.spans, strict=True)):
            # As in planning: a draft would take spare rows, and what follows it is not known.
            has_room = num_spare - place >= 2 * num_left
            if has_room and sequence.drafter.expects(sequence.tokens):
                return None
            num_left -= 1
            position = sequence.num_output + 1
            if position >= sequence.max_tokens:
                continue
            draw = self._draw(sequence, len(made.spans), position)
            if draw is None:
                return None
            past = before.past + 1
            if past % block == 0:
                made.num_cells += block
            made.spans.append(Span(before.slot, (-1 - place,), past, 1, before.adapters))
            made.sequences.append(sequence)
            made.draws.append(draw)
        made.num_rows = len(made.spans)
        # Nothing is evicted while a step is open.
        has_cells = made.num_cells <= self._runner.cells_free
        return made if made.spans and has_cells else None

    def _draw(self, sequence: Sequence, row: int, position: int) -> Draw | None:
        """The draw from that row. None: it depends on the tokens before, or its logits are needed for more."""
        if sequence.guide is not None or sequence.watched:
            return None
        job = self._jobs[sequence.request_id]
        if job.needs_scores or job.has_rounds:
            return None
        return sequence.sampler.draw_ahead(row, position)
