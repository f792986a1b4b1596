"""What a step has for itself while another one runs: its board, rows, program, logits and draws.

Activations and scratch memory are shared: steps run one after the other.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import Logits, Span
from segue.runners.cpu.draws.drawer import Drawer, Draws
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.slots.slots import Slots
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.adapter_tables import AdapterMixes, Adapters
from segue.runners.cpu.workspace import Workspace

Program = Callable[[int], NDArray[np.int64]]  # (address of the logits) → instructions


class Frame:
    def __init__(
        self,
        space: Workspace,
        slots: Slots,
        program: Program,
        num_logits: int,
        drawer: Drawer,
        adapters: Adapters | None,
        *,
        is_for_drafts: bool = False,
    ):
        """`num_logits`: rows of logits that a step may want. `is_for_drafts`: slots hold its rows until drafts are
        dropped.
        """
        max_rows = space.max_rows
        self.board: NDArray[np.int64] = zeros(on.NUM_WORDS, np.int64)
        self.board[:] = space.board
        self._slots, self._item_rows = slots, space.item_rows
        self._append = slots.append_drafts if is_for_drafts else slots.append
        self._row_bytes = 4 * int(space.board[on.WIDTH])
        self.tokens = self._array(on.TOKENS, max_rows)
        self.positions = self._array(on.POSITIONS, max_rows)
        self.tables = self._array(on.TABLES, max_rows)
        self.wanted = self._array(on.WANTED_ROWS, max_rows)
        self.items = self._array(on.ITEMS, 2 * max_rows)
        self.spans = self._array(on.SPANS, on.SPAN_WORDS * max_rows)
        self._hidden_before = self._array(on.HIDDEN_BEFORE, max_rows if slots.hidden_states else 0)
        self._handed_on = self._array(on.HANDED_ON, max_rows if slots.hidden_states else 0)
        self._mixes = None if adapters is None else AdapterMixes(adapters, self.board, max_rows)
        self.logits: Logits = zeros((num_logits, drawer.vocab_size), np.float32)
        instructions = program(address(self.logits))
        self.num_phases = len(instructions)  # without the draws, which come last
        self.program: NDArray[np.int64] = zeros(
            (self.num_phases + 1, on.INSTRUCTION_WORDS), np.int64
        )
        self.program[:-1] = instructions
        self.draws = Draws(drawer, self.logits, self.program[-1])
        self._counters: NDArray[np.int64] = zeros((len(self.program), on.COUNTER_WORDS), np.int64)
        self.board[on.COUNTERS] = address(self._counters)
        self.num_rows = self.num_wanted = 0

    def fill(self, spans: Sequence[Span]) -> None:
        """Write the rows of a step. They take their cells of the KV cache."""
        tokens: list[int] = []
        positions: list[int] = []
        tables: list[int] = []
        wanted: list[int] = []
        items: list[int] = []  # first row and number of rows
        stood: list[int] = []  # of slots with a state: see SPANS
        # Of models with an MTP layer: see HIDDEN_BEFORE, HANDED_ON.
        before: list[int] = []
        after: list[int] = []
        hidden, own_rows = self._slots.hidden_states, int(self.board[on.INPUT_FLOATS])
        is_fused = True
        append, table = self._append, self._slots.kv.table
        for slot, new, past, num_logits, _, returnable in spans:
            count, first = len(new), len(tokens)
            if not count:
                continue
            state = append(slot, count, returnable)
            if state is not None:
                stood += (first, count, *state)
            if hidden is not None:
                before += hidden.before(slot, past, count, own_rows + first * self._row_bytes)
                after += hidden.after(slot, past, count)
            tokens += new
            positions += range(past, past + count)
            tables += [table(slot)] * count
            wanted += range(first + count - num_logits, first + count)
            most = self._item_rows.of(count)
            for start in range(0, count, most):
                items += (first + start, min(most, count - start))
            is_fused = is_fused and count <= self._item_rows.few
        self.tokens[: len(tokens)] = tokens
        self.positions[: len(tokens)] = positions
        self.tables[: len(tokens)] = tables
        self.wanted[: len(wanted)] = wanted
        self.items[: len(items)] = items
        self.spans[: len(stood)] = stood
        if hidden is not None:
            self._hidden_before[: len(before)], self._handed_on[: len(after)] = before, after
        if self._mixes is not None:
            of_rows = [index for index, span in enumerate(spans) for _ in span.tokens]
            self._mixes.tell([span.adapters for span in spans], of_rows, wanted)
        board = self.board
        board[on.NUM_ITEMS], board[on.IS_FUSED] = len(items) // 2, is_fused
        board[on.NUM_SPANS] = len(stood) // on.SPAN_WORDS
        board[on.ROWS], board[on.WANTED] = len(tokens), len(wanted)
        self.num_rows, self.num_wanted = len(tokens), len(wanted)

    def set_program(self, first: int, end: int) -> None:
        """Let the next step run these instructions of the program."""
        self.board[on.PROGRAM] = address(self.program) + first * on.INSTRUCTION_WORDS * 8
        self.board[on.NUM_PHASES] = end - first
        self._counters.fill(0)

    def set_before(self, before: "Frame") -> None:
        """Name the frame whose draws can be this one's tokens."""
        self.board[on.DRAWN] = before.draws.tokens_address

    def _array(self, slot: int, count: int) -> NDArray[np.int64]:
        array: NDArray[np.int64] = zeros(count, np.int64)
        self.board[slot] = address(array)
        return array
