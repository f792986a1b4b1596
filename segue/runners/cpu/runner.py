"""The CPU runner: slots are tables of KV blocks, and every step is one program that a team of threads runs.

A row's logits depend only on the model file and on the tokens up to that row. No sum depends on the other rows of the
step, on how a prompt is split into chunks, on the number of threads or on the processor.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.cpus import usable_cpus
from segue.engine.seam import Capabilities, Draw, Logits, Span, Step
from segue.runners.cpu.compile import ENTRIES, step_code
from segue.runners.cpu.draws.drawer import Drawer
from segue.runners.cpu.kept_code import KeptCode
from segue.runners.cpu.kv import BLOCK, Kv
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.native import kernel, link
from segue.runners.cpu.products.processor import Target, this_target
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.adapter_tables import Adapters
from segue.runners.cpu.step.program import Places, nothing_before, program
from segue.runners.cpu.step.softmax import Softmax
from segue.runners.cpu.team import Team
from segue.runners.cpu.tuning import Threads, tuned
from segue.runners.cpu.weights import Weights
from segue.runners.cpu.workspace import PRIVATE_ROWS, Workspace, item_rows

DEFAULT_CONTEXT = 8192
_MEASURED_STEPS, _MEASURED_S = 4, 0.05  # limits per measurement at the start
_MOST_SEQUENCES = 32


class CpuRunner:
    """Implements seam.Runner."""

    def __init__(
        self,
        path: str | Path,
        *,
        cache_dir: str | Path,
        context_length: int | None = None,
        kv_bytes: int | None = None,
        num_slots: int = 256,
        threads: int = 0,
        max_rows: int = 512,
        target: Target | None = None,
        adapters: Mapping[str, str] | None = None,
        beside: "CpuRunner | None" = None,
        await_quiet: Callable[[], object] = lambda: None,
    ):
        """`adapters`: files of LoRA adapters by name. `beside`: a runner whose threads run this one's steps too; only
        one of the two runs a step at a time. `await_quiet` is called before speeds are measured.
        """
        target = target or this_target()
        self.flavour = target.flavour.name
        kept = KeptCode(cache_dir)
        threads = min(threads or usable_cpus(), beside._team.size if beside else on.MAX_THREADS)
        self._weights = Weights(path, target, threads, kept)
        anatomy = self._weights.anatomy
        context = context_length or min(anatomy.train_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        if anatomy.family.turns == "none":  # learned positions: the model has no others
            context = min(context, anatomy.train_context)
        self._kv = Kv(anatomy, context, kv_bytes, num_slots)
        context = min(context, self._kv.num_blocks * BLOCK)
        self._space = Workspace(anatomy, max_rows, threads, anatomy.vocab_size)
        self._adapters: Adapters | None = None
        if adapters:
            board = self._space.board
            self._adapters = Adapters(adapters, self._weights, board, max_rows)
            board[on.TILE_OUTPUTS] = target.flavour.width
        self._turns = self._weights.rotations(context)
        self._program = self._written(target)
        self._counters = self._on_board()
        self._item_rows = item_rows(anatomy.shared)
        self._owns_team = beside is None
        self._team: Team = beside._team if beside else self._new_team(threads, target, kept)
        exact_math.use(Softmax(target, kept))
        self._drawer = Drawer(self._space.logits, threads, self._run_alone, target, kept)
        self._capabilities = Capabilities(
            num_slots=num_slots,
            num_cells=self._kv.num_blocks * BLOCK,
            context_length=context,
            max_rows=max_rows,
            vocab_size=anatomy.vocab_size,
            cells_per_block=BLOCK,
            draws=True,
            adapters=tuple(adapters or ()),
            deterministic=exact_math.keeps_denormals(),  # the threads of the team inherit this setting
        )
        await_quiet()
        tuning = tuned(self._seconds, threads, min(max_rows, context))
        self._threads = Threads(tuning, threads)
        self._capabilities = replace(self._capabilities, free_rows=tuning.free_rows)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cells_free(self) -> int:
        return self._kv.tables.cells_free

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._check(spans)
        num_rows, num_wanted = self._fill(spans)
        if num_rows:
            start = time.perf_counter()
            self._run(num_rows, num_wanted, self._threads.choose(num_rows))
            self._threads.learn(num_rows, time.perf_counter() - start)
        return self._space.logits[:num_wanted]

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        return self._drawer.draw(draws)

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        raise NotImplementedError("rows_ahead is 0")

    def end(self) -> Step:
        raise NotImplementedError("rows_ahead is 0")

    def fork(self, src: int, dst: int, length: int) -> None:
        held = self._kv.tables.length(src)
        if self._kv.tables.length(dst) or not 0 <= length <= held:
            raise ValueError(f"cannot fork {length} of {held} tokens of slot {src} into {dst}")
        if length % BLOCK and not self.cells_free:
            raise RuntimeError(f"no block is free to fork slot {src} into {dst}")
        self._kv.fork(src, dst, length)

    def trim(self, slot: int, length: int) -> None:
        held = self._kv.tables.length(slot)
        if not 0 <= length <= held:
            raise ValueError(f"cannot trim slot {slot} from {held} to {length} tokens")
        self._kv.tables.trim(slot, length)

    def free(self, slot: int) -> None:
        self._kv.tables.trim(slot, 0)

    def close(self) -> None:
        """End the threads. Memory is freed with the runner object."""
        if self._owns_team:
            self._team.close()

    @property
    def program(self) -> NDArray[np.int64]:
        return self._program

    def run_instead(self, instructions: NDArray[np.int64]) -> None:
        """Replace the program by one that is not longer: to measure some instructions alone."""
        self._program[: len(instructions)] = instructions
        self._space.board[on.NUM_PHASES] = len(instructions)

    def _new_team(self, threads: int, target: Target, kept: KeptCode) -> Team:
        code = link(step_code(target, kept), [*ENTRIES], target)
        run, serve, post = (
            kernel(code[name], count, keeps_gil=name == "post_step")
            for name, count in ENTRIES.items()
        )
        return Team(threads, self._space.board, self._space.address, run, serve, post)

    # --- a step ---

    def _run(self, num_rows: int, num_wanted: int, threads: int) -> None:
        board = self._space.board
        board[on.ROWS], board[on.WANTED] = num_rows, num_wanted
        board[on.IS_PRIVATE] = num_rows <= PRIVATE_ROWS
        self._counters.fill(0)
        self._team.step(board, self._space.address, threads)

    def _run_alone(self, instructions: NDArray[np.int64], threads: int) -> None:
        """Run another program than the step's, between two steps."""
        board = self._space.board
        usual = board[on.PROGRAM], board[on.NUM_PHASES]
        board[on.PROGRAM], board[on.NUM_PHASES] = address(instructions), len(instructions)
        self._counters[: len(instructions)] = 0
        self._team.step(board, self._space.address, threads)
        board[on.PROGRAM], board[on.NUM_PHASES] = usual

    def _seconds(self, rows: int, threads: int) -> float:
        """The best time of a few steps with one token of each of `rows` sequences, or with one prompt if too many."""
        spans = [Span(slot, [0], 0, 1) for slot in range(rows)]
        if rows > min(_MOST_SEQUENCES, self._capabilities.num_slots, self._kv.num_blocks):
            spans = [Span(0, [0] * rows, 0, 1)]
        best = total = 0.0
        for attempt in range(_MEASURED_STEPS):
            num_rows, num_wanted = self._fill(spans)
            start = time.perf_counter()
            self._run(num_rows, num_wanted, threads)
            took = time.perf_counter() - start
            for span in spans:
                self.free(span.slot)
            total += took
            best = took if attempt < 2 else min(best, took)  # the first attempt only warms up
            if attempt and total > _MEASURED_S:
                break
        return best

    def _fill(self, spans: Sequence[Span]) -> tuple[int, int]:
        """Write the rows of a step to the workspace. Returns how many rows there are, and how many want logits."""
        tokens: list[int] = []
        positions: list[int] = []
        tables: list[int] = []
        wanted: list[int] = []
        items: list[int] = []  # first row and number of rows
        most = self._item_rows
        is_fused = True
        append, table = self._kv.append, self._kv.table
        for slot, new, past, num_logits, _ in spans:
            count, first = len(new), len(tokens)
            if not count:
                continue
            append(slot, count)
            tokens += new
            positions += range(past, past + count)
            tables += [table(slot)] * count
            wanted += range(first + count - num_logits, first + count)
            for start in range(0, count, most):
                items += (first + start, min(most, count - start))
            is_fused = is_fused and count <= most
        space = self._space
        space.tokens[: len(tokens)] = tokens
        space.positions[: len(tokens)] = positions
        space.tables[: len(tokens)] = tables
        space.wanted[: len(wanted)] = wanted
        space.items[: len(items)] = items
        if self._adapters is not None:
            of_rows = [index for index, span in enumerate(spans) for _ in span.tokens]
            self._adapters.tell([span.adapters for span in spans], of_rows, wanted)
        space.board[on.NUM_ITEMS], space.board[on.IS_FUSED] = len(items) // 2, is_fused
        return len(tokens), len(wanted)

    def _check(self, spans: Sequence[Span]) -> None:
        """Raise for spans that would corrupt memory, before anything is changed."""
        limits, tables = self._capabilities, self._kv.tables
        longest, vocab_size = limits.context_length, limits.vocab_size
        num_rows = needed = 0
        for slot, tokens, past, _, adapters in spans:
            held, count = tables.length(slot), len(tokens)
            num_rows += count
            needed += tables.num_needed(slot, count)
            if past != held:
                raise ValueError(f"slot {slot} holds {held} tokens, not {past}")
            if held + count > longest:
                raise ValueError(f"slot {slot} would outgrow {longest} tokens")
            if count and not 0 <= min(tokens) <= max(tokens) < vocab_size:
                raise ValueError(f"slot {slot} was given a token that the model does not have")
            if any(not 0 <= number < len(limits.adapters) for number, _ in adapters):
                raise ValueError(f"slot {slot} was given an adapter that is not there")
        if num_rows > limits.max_rows:
            raise RuntimeError(f"{num_rows} rows asked for, but a step takes {limits.max_rows}")
        if needed * BLOCK > self.cells_free:
            raise RuntimeError(f"{needed * BLOCK} cells needed, but {self.cells_free} are free")

    # --- what is made once ---

    def _written(self, target: Target) -> NDArray[np.int64]:
        space, kv = self._space, self._kv
        places = Places(
            projected=space.projected,
            attended=space.attended,
            added=space.added,
            logits=address(space.logits),
            logits_row=space.logits.shape[1],
            keys=kv.keys,
            values=kv.values,
            layer_bytes=kv.layer_bytes,
            block_bytes=kv.stride,
            turns=tuple(map(address, self._turns)),
            mixture=space.mixture,
        )
        before = nothing_before if self._adapters is None else self._adapters.phase
        return program(self._weights, places, target.flavour.width, before)

    def _on_board(self) -> NDArray[np.int64]:
        counters: NDArray[np.int64] = zeros((len(self._program), on.COUNTER_WORDS), np.int64)
        board = self._space.board
        board[on.PROGRAM], board[on.NUM_PHASES] = address(self._program), len(self._program)
        board[on.COUNTERS] = address(counters)
        return counters
