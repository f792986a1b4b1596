"""The CPU runner: slots are tables of KV blocks and states, and every step is one program that a team of threads runs.

A row's logits depend only on the model file and on the tokens up to that row. No sum depends on the other rows of the
step, on how a prompt is split into chunks, on the number of threads or on the processor.

A step that is begun runs without the caller, so that a second one can be prepared meanwhile; the kernels draw its
tokens and take them as the next step's input. While the caller waits, its thread computes too; it is the only one to
compute if a step has one thread.
"""

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.cpus import usable_cpus
from segue.engine.seam import Capabilities, Draw, Late, Logits, Span, Step, Told
from segue.fingerprint import sources
from segue.models.context import context_of
from segue.models.gguf import GgufHeader
from segue.runners.cpu.compile import ENTRIES, step_code
from segue.runners.cpu.draws.drawer import Drawer, write_told
from segue.runners.cpu.frame import Frame
from segue.runners.cpu.kept_code import KeptCode
from segue.runners.cpu.memory import address
from segue.runners.cpu.native import kernel, link
from segue.runners.cpu.products.processor import Target, this_target
from segue.runners.cpu.rare_phases import rare_code
from segue.runners.cpu.slots.kv import BLOCK
from segue.runners.cpu.slots.slot_bytes import CpuSlotBytes
from segue.runners.cpu.slots.slots import Slots
from segue.runners.cpu.step import board as on
from segue.runners.cpu.step.adapter_tables import Adapters
from segue.runners.cpu.step.attention.kv_formats import KvType
from segue.runners.cpu.step.program.phases import nothing_before, program
from segue.runners.cpu.step.program.places import Places
from segue.runners.cpu.step.softmax import Softmax
from segue.runners.cpu.steps_ahead import StepsAhead
from segue.runners.cpu.threads.team import Kernels, Team
from segue.runners.cpu.threads.tuning import Threads, tuned
from segue.runners.cpu.weights import Weights
from segue.runners.cpu.workspace import Workspace

_MEASURED_STEPS, _MEASURED_S = 4, 0.05  # limits per measurement at the start
_MOST_SEQUENCES = 32
_MOST_AHEAD = 256  # rows of logits of a step that is begun
_DRAFT_ROWS = 16  # as many as the scheduler learns the costs of
_ROWS_A_THREAD = 4  # of draws: for fewer, waking another thread costs more than it saves
_SHORT = ("post_step", "tell_word")  # kernels
_slot = itemgetter(0)  # of a span


class CpuRunner:
    """Implements seam.Runner."""

    # Whether it has the model's MTP layer: see mtp_runner.py.
    drafts: ClassVar[bool] = False
    _team: Team

    def __init__(
        self,
        path: str | Path,
        *,
        cache_dir: str | Path,
        context_length: int | None = None,
        kv_bytes: int | None = None,
        kv_type: KvType = "f16",
        num_slots: int = 256,
        threads: int = 0,
        max_rows: int = 512,
        target: Target | None = None,
        adapters: Mapping[str, str] | None = None,
        beside: "CpuRunner | None" = None,
        await_quiet: Callable[[], object] = lambda: None,
    ):
        """`adapters`: files of LoRA adapters by name. `beside`: a runner whose threads run this one's steps too, a step
        of one of them at a time; it closes this one with it. `await_quiet` is called before speeds are measured.
        """
        target = target or this_target()
        self.flavour, self._tile_outputs = target.flavour.name, target.flavour.width
        kept = KeptCode(cache_dir)
        threads = min(threads or usable_cpus(), beside._team.size if beside else on.MAX_THREADS)
        self._weights = Weights(path, target, threads, kept, self.drafts)
        hparams = self._weights.hparams
        context = context_of(context_length, hparams.train_context)
        if self._weights.has("position_embd.weight"):  # learned: the model has no others
            context = min(context, hparams.train_context)
        self._slots = Slots(hparams, context, kv_bytes, num_slots, kv_type)
        context = min(context, self._slots.num_cells)
        self._space = Workspace(hparams, max_rows, threads)
        self._adapters = self._read_adapters(adapters) if adapters else None
        self._turns = self._weights.rotations(context)
        self._rare = rare_code(target, kept, hparams.family.rare_phases(self.drafts))
        self._drawer = Drawer(hparams.vocab_size, threads, target, kept)
        self._frames = self._new_frames(self._drawer)
        self._num_threads = threads
        self._team = beside._lent_team(kv_type) if beside else self._new_team(threads, target, kept)
        exact_math.use(Softmax(target, kept))
        self._capabilities = self._limits(context, tuple(adapters or ()))
        await_quiet()
        tuning = tuned(self._seconds, threads, min(max_rows, context))
        self._slots.let_go()
        self._threads = Threads(tuning, threads)
        self._steps_ahead = StepsAhead(self._team, self._frames, Threads(tuning, threads))
        self._join(beside)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def header(self) -> GgufHeader:
        """Of the files that its weights were read from."""
        return self._weights.header

    @property
    def cells_free(self) -> int:
        return self._slots.tables.cells_free

    def cells_held(self, slots: Iterable[int]) -> int:
        return self._slots.tables.cells_held(slots)

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._check_idle()
        self._check(spans, self._capabilities.max_rows)
        frame = self._frames[0]
        self._team.await_left(frame.board)
        frame.fill(spans)
        if frame.num_rows:
            start = time.perf_counter()
            threads = self._threads.choose(frame.num_rows)
            self._run(frame, threads)
            self._threads.learn(frame.num_rows, time.perf_counter() - start, threads)
        return frame.logits[: frame.num_wanted]

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        self._check_idle()
        frame = self._frames[0]
        self._team.await_left(frame.board)
        frame.draws.write(draws, len(frame.logits))
        if draws:
            frame.set_program(len(frame.program) - 1, len(frame.program))
            threads = min(self._num_threads, -(-len(draws) // _ROWS_A_THREAD))
            self._team.step(frame.board, threads)
        return frame.draws.read()

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        """Spans and draws as they are with `decode`, but at most `rows_ahead` rows of logits and draws."""
        ahead = self._steps_ahead
        ahead.check()
        self._check_open()
        self._check(spans, self._capabilities.rows_ahead, ahead.num_drawn)
        ahead.begin(spans, draws)

    def end(self) -> Step:
        """The logits are those of the model in all rows: the draws' changes are undone.

        They stay until the next step is begun, or decoded.
        """
        return self._steps_ahead.end()

    def tell(self, late: Late, told: Told | None) -> None:
        self._team.tell(*write_told(late, told, self._capabilities.vocab_size))

    def fork(self, src: int, dst: int, length: int) -> None:
        self._check_idle()
        held = self._held(src)
        if self._held(dst) or not 0 <= length <= held:
            raise ValueError(f"cannot fork {length} of {held} tokens of slot {src} into {dst}")
        if length % BLOCK and not self.cells_free:
            raise RuntimeError(f"no block is free to fork slot {src} into {dst}")
        self._slots.fork(src, dst, length)

    def trim(self, slot: int, length: int) -> None:
        self._check_idle()
        held = self._held(slot)
        if not 0 <= length <= held:
            raise ValueError(f"cannot trim slot {slot} from {held} to {length} tokens")
        self._slots.trim(slot, length)

    def free(self, slot: int) -> None:
        self.trim(slot, 0)

    def close(self) -> None:
        """End the runners beside this one, then the threads, both after the steps that are open. May be called again.

        Other calls are refused from now on. Memory is freed with the runner object, which closes one that is open.
        """
        for each in [*self._neighbours]:
            each.close()
        self._ending()

    def slot_bytes(self, model: str) -> CpuSlotBytes:
        """Its slots as bytes. `model`: the digest of its files."""
        kernels, hparams = sources("runners/cpu"), self._weights.hparams
        return CpuSlotBytes(self._slots, hparams, self._check_idle, model, kernels)

    @property
    def program(self) -> NDArray[np.int64]:
        frame = self._frames[0]
        return frame.program[: frame.num_phases]

    def run_instead(self, instructions: NDArray[np.int64]) -> None:
        """Let `decode` run a program that is not longer: to measure some instructions alone."""
        frame = self._frames[0]
        self._team.await_left(frame.board)
        frame.program[: len(instructions)] = instructions
        frame.num_phases = len(instructions)

    def _new_team(self, threads: int, target: Target, kept: KeptCode) -> Team:
        code = link(step_code(target, kept, self._slots.kv.kv_type), [*ENTRIES], target)
        made = {
            name: kernel(code[name], count, keeps_gil=name in _SHORT)
            for name, count in ENTRIES.items()
        }
        return Team(threads, Kernels(**made))

    def _lent_team(self, kv_type: KvType) -> Team:
        """For a runner beside this one, with the same type of KV: the threads' code has one."""
        self._check_idle()
        if kv_type != self._slots.kv.kv_type:
            raise ValueError(f"a runner beside one with KV in {self._slots.kv.kv_type}")
        return self._team

    # --- a step ---

    def _run(self, frame: Frame, threads: int) -> None:
        frame.set_program(0, frame.num_phases)
        self._team.step(frame.board, threads)

    def _seconds(self, rows: int, threads: int) -> float:
        """The best time of a few steps with one token of each of `rows` sequences, or with one prompt if too many."""
        spans = [Span(slot, [0], 0, 1) for slot in range(rows)]
        if rows > min(_MOST_SEQUENCES, self._capabilities.num_slots, self._slots.kv.num_blocks):
            spans = [Span(0, [0] * rows, 0, 1)]
        best = total = 0.0
        frame = self._frames[0]
        for attempt in range(_MEASURED_STEPS):
            self._team.await_left(frame.board)
            frame.fill(spans)
            start = time.perf_counter()
            self._run(frame, threads)
            took = time.perf_counter() - start
            for span in spans:
                self._slots.trim(span.slot, 0)
            total += took
            best = took if attempt < 2 else min(best, took)  # the first attempt only warms up
            if attempt and total > _MEASURED_S:
                break
        return best

    def _check_open(self) -> None:
        if not self._ending.alive:
            raise RuntimeError("the runner is closed")

    def _check_idle(self) -> None:
        self._check_open()
        if self._team.num_open:
            raise RuntimeError("a step is open: it must end first")

    def _held(self, slot: int) -> int:
        """How many tokens a slot holds."""
        if not 0 <= slot < self._capabilities.num_slots:
            raise ValueError(f"there is no slot {slot}")
        return self._slots.tables.length(slot)

    def _check(self, spans: Sequence[Span], most_wanted: int, num_drawn: int = 0) -> None:
        """Raise for spans that would corrupt memory, before anything is changed.

        `num_drawn`: how many tokens of the step before can be named as -1, -2 and so on.
        """
        limits, tables = self._capabilities, self._slots.tables
        longest, vocab_size = limits.context_length, limits.vocab_size
        slots = set(map(_slot, spans))
        if len(slots) < len(spans):
            raise ValueError("a slot has two spans in one step")
        if slots and not 0 <= min(slots) <= max(slots) < limits.num_slots:
            wrong = min(slots) if min(slots) < 0 else max(slots)
            raise ValueError(f"there is no slot {wrong}")
        num_rows = num_wanted = needed = 0
        for slot, tokens, past, num_logits, adapters, returnable in spans:
            held, count = tables.length(slot), len(tokens)
            num_rows += count
            num_wanted += num_logits
            needed += tables.num_needed(slot, count)
            if past != held:
                raise ValueError(f"slot {slot} holds {held} tokens, not {past}")
            if held + count > longest:
                raise ValueError(f"slot {slot} would outgrow {longest} tokens")
            if not 0 <= num_logits <= count:
                raise ValueError(f"{num_logits} rows of logits wanted of {count} tokens")
            if count and not -num_drawn <= min(tokens) <= max(tokens) < vocab_size:
                raise ValueError(f"slot {slot} was given a token that the model does not have")
            if not (limits.can_trim or 1 <= returnable <= limits.can_give_back):
                raise ValueError(f"slot {slot} cannot keep {returnable} tokens apart")
            if any(not 0 <= number < len(limits.adapters) for number, _ in adapters):
                raise ValueError(f"slot {slot} was given an adapter that is not there")
        if num_rows > limits.max_rows:
            raise RuntimeError(f"{num_rows} rows asked for, but a step takes {limits.max_rows}")
        if num_wanted > most_wanted:
            raise RuntimeError(
                f"{num_wanted} rows of logits asked for, but there are {most_wanted}"
            )
        if needed * BLOCK > self.cells_free:
            raise RuntimeError(f"{needed * BLOCK} cells needed, but {self.cells_free} are free")

    # --- what is made once ---

    def _limits(self, context: int, adapters: tuple[str, ...]) -> Capabilities:
        return Capabilities(
            num_slots=self._slots.num_slots,
            num_cells=self._slots.num_cells,
            context_length=context,
            max_rows=self._space.max_rows,
            vocab_size=self._weights.hparams.vocab_size,
            cells_per_block=BLOCK,
            state_bytes=0 if self._slots.states is None else self._slots.states.slot_bytes,
            can_trim=self._slots.states is None,
            can_give_back=0 if self._slots.states is None else on.MOST_PENDING,
            draft_rows=_DRAFT_ROWS,
            draws=True,
            rows_ahead=len(self._frames[-1].logits),
            adapters=adapters,
            deterministic=exact_math.keeps_denormals(),  # the threads of the team inherit this setting
        )

    def _join(self, beside: "CpuRunner | None") -> None:
        """Say what ends with this runner, and with what it ends. Memory that threads see outlives their steps."""
        self._beside = beside  # it owns the threads, so it lives as long as this one
        self._neighbours: weakref.WeakSet[CpuRunner] = weakref.WeakSet()
        if beside is not None:
            beside._neighbours.add(self)
        owned = self._team if beside is None else None
        self._ending = weakref.finalize(self, _end_all, self._steps_ahead, owned)

    def _read_adapters(self, files: Mapping[str, str]) -> Adapters:
        board = self._space.board
        board[on.TILE_OUTPUTS] = self._tile_outputs
        return Adapters(files, self._weights, board, self._space.max_rows)

    def _new_frames(self, drawer: Drawer) -> list[Frame]:
        """One for `decode`, which begun steps use too, in turn with a second one."""
        most = self._space.max_rows
        first, second = (
            Frame(self._space, self._slots, self._program, count, drawer, self._adapters)
            for count in (most, min(most, _MOST_AHEAD))
        )
        first.set_before(second)
        second.set_before(first)
        return [first, second]

    def _program(self, logits: int) -> NDArray[np.int64]:
        before = nothing_before if self._adapters is None else self._adapters.phase
        return program(self._weights, self._places(logits), self._tile_outputs, before)

    def _places(self, logits: int) -> Places:
        return self._space.places(
            self._slots, logits, turns=tuple(map(address, self._turns)), rare=self._rare
        )


def _end_all(steps: StepsAhead, team: Team | None) -> None:
    """End the steps that are open: their threads use memory that may be freed next. Then end the threads."""
    steps.close()
    if team is not None:
        team.close()
