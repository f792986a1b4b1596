"""Asynchronous scheduling: the next step is planned, and begun, before the tokens of the open one are known.

The runner draws the tokens of a step itself and takes them in the next, so no processor waits while texts and events
are made. This is done if every running sequence decodes one row in the next step, and the runner can make all draws:
see `Draw`. Everything else (a prompt, a draft, a message) waits until no step is open.

What a constraint allows, which token would complete a banned phrase and what DRY costs is known only when the token
before is. It is told to the runner while that computes the row (`tell_late`). Tokens that a constraint forces are known
sooner: several of them are a span of one step.

Answers are the same as without. A sequence that ends unexpectedly has a row too many in the open step; nobody reads it.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from segue.engine.request.sequence import Sequence
from segue.engine.scheduling.batch import Batch
from segue.engine.scheduling.forced import Forced
from segue.engine.scheduling.state import State
from segue.engine.seam import Draw, Late, Runner, Span, Told

# If the runner leaves a draw to the sampler, the sequence's next row is computed in vain. One draw in so many may be.
_SELDOM = 8


class Ahead:
    def __init__(self, state: State) -> None:
        limits = state.limits
        goes_back = limits.most_returnable > 0  # so a row too many can be taken back
        self._most_rows = limits.rows_ahead if goes_back else 0
        self._limits = limits
        self._runner = state.runner
        self._jobs = state.jobs
        self._waiting = state.waiting
        self._running = state.running
        self._memory = state.memory
        self._forced = Forced(state)
        self._drafts = state.text_drafts
        self._proposer = state.proposer

    def plan_draws(self, batch: Batch) -> None:
        """Give the batch its draws, if the runner can make all of them. Then its step may be begun."""
        if len(batch.spans) > self._most_rows:
            return
        draws: dict[Sequence, Draw] = {}
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            if not span.num_logits:
                continue  # its prompt goes on
            draw = None
            num_draft = span.past + len(span.tokens) - len(sequence.tokens)
            is_one = span.num_logits == 1 and num_draft >= 0 and not sequence.awaits_mask
            is_one = is_one and self._can_be_late(sequence, span)
            if is_one and self._has_draws(sequence):
                draw = self._draw(sequence, len(draws), sequence.num_output + num_draft)
            if draw is None or (num_draft and sequence.sampler.is_penalising):
                return
            draws[sequence] = draw
        batch.draws = draws
        tell_late(batch, self._runner)

    def following(self, batch: Batch) -> Batch | None:
        """The batch after this one, which is open: its tokens are not known yet. None: it must be ended first.

        All sequences go on, but those that have ended, and those whose last token the open step draws.
        """
        if self._waiting and (batch.num_prompt_rows or self._memory.has_deferred):
            return None  # one of them may be able to start
        going_on = [sequence for sequence in batch.sequences if sequence not in batch.void]
        if self._drafts.are_coming(going_on) or self._are_proposed(going_on):
            return None
        made = Batch(is_ahead=True)
        drawn = {sequence: number for number, sequence in enumerate(batch.draws)}
        for sequence, span in zip(batch.sequences, batch.spans, strict=True):
            if sequence in batch.void:
                if sequence.slot is not None:
                    return None  # its slot must be trimmed first
                continue
            if sequence not in drawn:
                return None  # its prompt goes on
            if not self._go_on(made, sequence, span, drawn[sequence]):
                return None
        # Others may wait for a mask or for room in a step. Nothing is evicted while a step is open.
        is_all = len(going_on) == len(self._running)
        has_room = (
            made.num_cells <= self._runner.cells_free and made.num_rows <= self._limits.max_rows
        )
        return made if made.spans and is_all and has_room else None

    def _are_proposed(self, going_on: list[Sequence]) -> bool:
        """Whether draft tokens will probably be computed: they are not where a constraint forces them, nor where
        what that allows is not known yet."""
        proposer = self._proposer
        if proposer is None or all(each.awaits_mask or each.forced for each in going_on):
            return False
        return proposer.is_coming(len(going_on))

    def _go_on(self, made: Batch, sequence: Sequence, span: Span, number: int) -> bool:
        """Add what follows the span to a batch, if anything does; False: it cannot be told yet.

        `number`: the draw of the open step that gives the sequence's next token.
        """
        slot, before, past, _, adapters, _ = span
        past += len(before)
        num_open = past + 1 - len(sequence.tokens)
        position = sequence.num_output + num_open
        if num_open >= sequence.num_left:
            return True  # it ends, or drops tokens before it goes on
        tokens: tuple[int, ...] = ()
        returnable = 1
        if sequence.guide is not None:
            tokens = self._forced.known(sequence, past - len(sequence.tokens))
            # A mask that comes late takes back the open step's rows too.
            most = self._limits.most_returnable - len(before)
            tokens = tokens[: max(most, 0)]
            returnable = len(before) + max(len(tokens), 1)
            if returnable > self._limits.most_returnable:
                return False
        if len(tokens) > 1:
            draw = self._draw(sequence, len(made.spans), position + len(tokens) - 1)
        else:
            tokens = (-1 - number,)
            draw = self._draw(sequence, len(made.spans), position, number)
        if draw is None:
            return False
        end, block = past + len(tokens), self._limits.cells_per_block
        made.num_cells += (-(-end // block) - -(-past // block)) * block
        made.num_rows += len(tokens)
        made.spans.append(Span(slot, tokens, past, 1, adapters, returnable))
        made.sequences.append(sequence)
        made.draws[sequence] = draw
        return True

    def _can_be_late(self, sequence: Sequence, span: Span) -> bool:
        """Whether the span can be taken back whole, as is done if a constraint's mask comes late."""
        is_returnable = self._limits.can_trim or len(span.tokens) <= span.returnable
        return sequence.guide is None or is_returnable

    def _has_draws(self, sequence: Sequence) -> bool:
        """Whether a token, and no more than that, is made of each of its last rows."""
        has_rounds = self._jobs[sequence.request_id].has_rounds
        return sequence.has_draws and not (sequence.is_scoring or has_rounds)

    def _draw(
        self, sequence: Sequence, row: int, position: int, drawn: int | None = None
    ) -> Draw | None:
        """The draw from that row, of a sequence that has draws. None: the runner cannot make it.

        `drawn`: the draw of the open step that gives the token before; None: that token is known.
        """
        if sequence.num_undrawn * _SELDOM > position + _SELDOM:
            return None
        sampler = sequence.sampler
        draw = sampler.draw_ahead(row, position, drawn)
        if draw is None or (sequence.guide is None and not sampler.has_late):
            return draw
        return draw._replace(late=Late())


def tell_late(batch: Batch, runner: Runner) -> None:
    """Tell the runner what was not known of a batch's draws when they were planned; masks, as soon as they are found.

    Called when all tokens before the batch's spans are known.
    """
    for sequence, span in zip(batch.sequences, batch.spans, strict=True):
        draw = batch.draws.get(sequence)
        late = None if draw is None else draw.late
        if late is None:
            continue
        if sequence in batch.void:
            runner.tell(late, None)  # nobody reads that row
            continue
        try:
            told = sequence.sampler.late()
        except Exception:  # the sampler draws then: what raises there too fails its own request
            runner.tell(late, None)
            continue
        if sequence.guide is None:
            runner.tell(late, told)
        else:
            num_forced = span.past + len(span.tokens) - len(sequence.tokens)
            sequence.guide.tell(partial(_tell_mask, runner, late, told), num_forced)


def _tell_mask(runner: Runner, late: Late, told: Told, allowed: NDArray[np.uint8] | None) -> None:
    runner.tell(late, None if allowed is None else told._replace(allowed=allowed))
