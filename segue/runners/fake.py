"""A runner without weights: logits that are a pure function of the tokens so far, and a byte vocabulary.

For tests of the engine in milliseconds, and for `--runner fake`, which measures everything but the model.
"""

import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from segue.engine.seam import (
    Capabilities,
    Draw,
    FimTokens,
    Late,
    Loaded,
    Logits,
    Span,
    Step,
    Told,
)
from segue.fingerprint import unpromised
from segue.runners.fake_draws import check_repeats, draw_by_weight, seen_by
from segue.runners.fake_slots import FakeSlot, FakeSlotBytes
from segue.types import ModelInfo, Origin

EOS = 256
BOS = 257
VOCAB_SIZE = 264  # 256 bytes, EOS, BOS, six FIM tokens
_NAMES = {
    EOS: b"<|endoftext|>",
    BOS: b"<|begin|>",
    258: b"<|fim_prefix|>",
    259: b"<|fim_suffix|>",
    260: b"<|fim_middle|>",
    261: b"<|fim_pad|>",
    262: b"<|repo_name|>",
    263: b"<|file_sep|>",
}
_IDS = {name.decode(): token for token, name in _NAMES.items()}
_SPECIAL = re.compile("|".join(map(re.escape, _IDS)))
_NUM_ROWS = 251  # distinct distributions
METADATA: dict[str, str | int | float | bool | None] = {
    "general.architecture": "fake",
    "general.license": "none",
    "fake.embedding_length": 8,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": None,
}
LISTS = {"tokenizer.ggml.tokens": b'["a","b"]', "tensors": b"[]"}


class FakeVocab:
    size = VOCAB_SIZE
    bos = BOS
    eos = EOS
    adds_bos = False
    end_tokens = frozenset({EOS})
    fim: FimTokens | None = FimTokens(258, 259, 260, 261, 262, 263)

    def tokenize(self, text: str, add_special: bool, parse_special: bool) -> list[int]:
        tokens: list[int] = []
        start = 0
        for found in _SPECIAL.finditer(text) if parse_special else ():
            tokens += text[start : found.start()].encode("utf-8", "replace")
            tokens.append(_IDS[found.group()])
            start = found.end()
        tokens += text[start:].encode("utf-8", "replace")
        return tokens

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else _NAMES[token]

    def is_control(self, token: int) -> bool:
        return token >= 256

    def close(self) -> None:
        pass


class _Begun(NamedTuple):
    """A step that was begun: computed when it is ended."""

    spans: list[Span]
    draws: list[Draw]
    seen: list[bytes]  # tokens that penalties look at, as they were


@lru_cache(maxsize=8)
def _table(seed: int, end_bias: float) -> Logits:
    """The rows of logits there are. All runners of a seed share them."""
    rng = np.random.default_rng(seed)
    table: Logits = rng.normal(0.0, 2.0, (_NUM_ROWS, VOCAB_SIZE)).astype(np.float32)
    table[:, :32] -= 4.0
    table[:, 127:] -= 3.0  # mostly printable, some stray bytes and multi-byte starts
    table[:, EOS] += end_bias
    table[:, BOS:] = -20.0
    table.flags.writeable = False
    return table


class FakeRunner:
    """With a `script`, the likeliest continuation at output position i is its i-th byte, over and over."""

    patience_s = 0.002  # how long a step waits to be told what is late

    def __init__(
        self,
        capabilities: Capabilities | None = None,
        script: bytes | None = None,
        end_bias: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._capabilities = capabilities or default_capabilities()
        self.slots: dict[int, FakeSlot] = {}
        self._references: dict[int, int] = {}
        self._next_cell = 0
        self.num_rows = 0  # computed so far
        self._logits: Logits = np.empty((0, VOCAB_SIZE), np.float32)  # of the last step
        self._open: list[_Begun] = []  # begun and not ended, the oldest first
        self._last_drawn: Sequence[int | None] = ()  # by the step that was ended last
        self._told = threading.Condition()  # what is late
        self._script = script
        self._table = _table(seed, end_bias)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cells_free(self) -> int:
        return self._capabilities.num_cells - len(self._references)

    def cells_held(self, slots: Iterable[int]) -> int:
        return len(
            {cell for slot in slots if slot in self.slots for cell in self.slots[slot].cells}
        )

    def decode(self, spans: Sequence[Span]) -> Logits:
        self._check_closed("decode")
        if sum(len(span.tokens) for span in spans) > self._capabilities.max_rows:
            raise RuntimeError("fake runner: more rows than a step can carry")
        for span in spans:
            self._take_cells(span)
        self._logits = self._computed(spans)
        return self._logits

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        self._check_closed("draw")
        return draw_by_weight(self._logits, draws)

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        self._check_begun(spans, draws)
        self._logits.fill(np.nan)  # of the step that was ended last: nobody may read them any more
        for span in spans:
            self._take_cells(span)
        self._open.append(_Begun(list(spans), list(draws), seen_by(draws)))

    def end(self) -> Step:
        if not self._open:
            raise RuntimeError("fake runner: no step is open")
        spans, draws, seen = self._open[0]
        if seen != seen_by(draws):
            raise RuntimeError("fake runner: tokens of an open draw were changed")
        self._logits = self._computed(spans)
        self._await_told(draws)
        self._last_drawn = self.drawn(self._logits, draws)
        del self._open[0]
        return Step(self._logits, self._last_drawn)

    def tell(self, late: Late, told: Told | None) -> None:
        with self._told:
            if late.words[0]:
                raise RuntimeError("fake runner: a draw was told twice")
            late.told, late.words[0] = told, 1
            self._told.notify_all()

    def _await_told(self, draws: Sequence[Draw]) -> None:
        awaited = [draw.late for draw in draws if draw.late is not None]
        if awaited:
            with self._told:
                self._told.wait_for(lambda: all(each.words[0] for each in awaited), self.patience_s)

    def drawn(self, logits: Logits, draws: Sequence[Draw]) -> Sequence[int | None]:
        """The tokens that a step draws by itself: for tests to override."""
        return draw_by_weight(logits, draws, self._last_drawn)

    def fork(self, src: int, dst: int, length: int) -> None:
        self._check_closed("fork")
        if dst in self.slots:
            raise RuntimeError(f"fake runner: slot {dst} is not empty")
        source = self.slots[src]
        if length > len(source.tokens):
            raise RuntimeError(f"fake runner: slot {src} holds {len(source.tokens)} tokens")
        if length:
            self._check_returnable(source, length)
        copy = FakeSlot(
            source.tokens[:length],
            source.states[:length],
            source.cells[:length],
            source.adapters,
            max(0, source.returnable - len(source.tokens) + length),
        )
        for cell in copy.cells:
            self._references[cell] += 1
        self.slots[dst] = copy

    def trim(self, slot: int, length: int) -> None:
        self._check_closed("trim")
        held = self.slots[slot]
        if length:
            self._check_returnable(held, length)
        held.returnable = max(0, held.returnable - len(held.tokens) + length)
        for cell in held.cells[length:]:
            self._drop_cell(cell)
        del held.tokens[length:], held.states[length:], held.cells[length:]

    def free(self, slot: int) -> None:
        self._check_closed("free")
        if slot in self.slots:
            self.trim(slot, 0)
            del self.slots[slot]

    def close(self) -> None:
        self._open.clear()
        self.slots.clear()
        self._references.clear()

    # --- a step ---

    def _computed(self, spans: Sequence[Span]) -> Logits:
        """The logits of a step that has its cells."""
        ends: list[tuple[FakeSlot, int]] = []  # of which tokens the logits are wanted
        for number, tokens, _, num_logits, adapters, _ in spans:
            slot, adapted = self.slots[number], 1
            for place, scale in adapters:
                adapted += int(1000 * scale) + 7 * place
            state = slot.states[-1] if slot.states else 0
            for given in tokens:
                token = given if given >= 0 else self._last_drawn[-1 - given] or 0
                state = (state * 31 + token + adapted) % 1_000_003
                slot.states.append(state)
                slot.tokens.append(token)
            num_tokens = len(slot.tokens)
            for end in range(num_tokens - num_logits, num_tokens):
                ends.append((slot, end))
            self.num_rows += len(tokens)
        return self._rows(ends)

    def _rows(self, ends: list[tuple[FakeSlot, int]]) -> Logits:
        """The logits after these tokens, each given by its slot and its position."""
        rows: Logits = self._table[[slot.states[end] % _NUM_ROWS for slot, end in ends]]
        if self._script is not None:
            for row, (_, end) in zip(rows, ends, strict=True):
                row[self._script[end % len(self._script)]] = 30.0
        return rows

    def _take_cells(self, span: Span) -> None:
        number, tokens, past, _, adapters, returnable = span
        slot = self.slots.get(number)
        if slot is None:
            slot = self.slots[number] = FakeSlot()
        if past != len(slot.cells):
            raise RuntimeError(f"fake runner: slot {number} holds {len(slot.cells)} tokens")
        if slot.cells and slot.adapters != adapters:
            raise RuntimeError(f"fake runner: slot {number} was computed with other adapters")
        limits = self._capabilities
        if past + len(tokens) > limits.context_length:
            raise RuntimeError(f"fake runner: slot {number} would hold more than the context")
        if not (limits.can_trim or 1 <= returnable <= max(1, limits.can_give_back)):
            raise RuntimeError(f"fake runner: {returnable} tokens cannot be kept apart")
        slot.adapters = adapters
        slot.returnable = min(returnable, slot.returnable + len(tokens))
        self.add_cells(slot, len(tokens))

    def add_cells(self, slot: FakeSlot, count: int) -> None:
        for _ in range(count):
            self._next_cell += 1
            self._references[self._next_cell] = 1
            slot.cells.append(self._next_cell)
        if self._capabilities.num_cells < len(self._references):
            raise RuntimeError("fake runner: out of cells")

    def _check_returnable(self, slot: FakeSlot, length: int) -> None:
        limits, count = self._capabilities, len(slot.tokens) - length
        if not limits.can_trim and count > min(slot.returnable, limits.can_give_back):
            raise RuntimeError(f"fake runner: a slot cannot give back {count} tokens")

    def _check_closed(self, name: str) -> None:
        if self._open:
            raise RuntimeError(f"fake runner: {name} was called while a step is open")

    def _check_begun(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        if len(self._open) > 1:
            raise RuntimeError("fake runner: two steps are open")
        num_logits, limits = sum([span.num_logits for span in spans]), self._capabilities
        if not 0 < num_logits <= limits.rows_ahead:
            raise RuntimeError(f"fake runner: {num_logits} rows of logits were begun")
        if sum([len(span.tokens) for span in spans]) > limits.max_rows:
            raise RuntimeError("fake runner: more rows than a step can carry")
        if len({span.slot for span in spans}) < len(spans):
            raise RuntimeError("fake runner: a slot has two spans")
        rows = {draw.row for draw in draws}
        if len(rows) < len(draws):
            raise RuntimeError("fake runner: a row has two draws")
        if not rows <= set(range(num_logits)):
            raise RuntimeError("fake runner: a draw from a row that the step does not have")
        num_before = len(self._open[0].draws) if self._open else 0
        for draw in draws:
            check_repeats(draw.repeats, num_before, VOCAB_SIZE)
        for span in spans:
            lowest = min(span.tokens)
            if lowest < 0 and len(span.tokens) > 1:
                raise RuntimeError("fake runner: a span with a drawn token has no other")
            if lowest < -num_before or max(span.tokens) >= VOCAB_SIZE:
                raise RuntimeError(f"fake runner: a token that there is not: {span.tokens}")

    def _drop_cell(self, cell: int) -> None:
        self._references[cell] -= 1
        if not self._references[cell]:
            del self._references[cell]


def default_capabilities(
    num_slots: int = 256,
    num_cells: int = 65536,
    context_length: int = 4096,
    max_rows: int = 512,
    draft_rows: int = 8,
    rows_ahead: int = 0,
) -> Capabilities:
    return Capabilities(
        num_slots=num_slots,
        num_cells=num_cells,
        context_length=context_length,
        max_rows=max_rows,
        vocab_size=VOCAB_SIZE,
        draft_rows=draft_rows,
        rows_ahead=rows_ahead,
        deterministic=True,
    )


@dataclass(frozen=True)
class FakeLoader:
    name: str = "fake"
    _: KW_ONLY
    script: bytes | None = None
    end_bias: float = 0.0
    num_slots: int = 256
    num_cells: int = 65536
    context_length: int = 4096
    max_rows: int = 512

    def __call__(self) -> Loaded:
        capabilities = default_capabilities(
            self.num_slots,
            self.num_cells,
            self.context_length,
            self.max_rows,
            rows_ahead=self.num_slots,
        )
        runner = FakeRunner(replace(capabilities, draws=True), self.script, self.end_bias)
        info = ModelInfo(
            name=self.name,
            architecture="fake",
            runner="fake",
            context_length=self.context_length,
            vocab_size=VOCAB_SIZE,
            num_params=0,
            size_bytes=0,
            quantization="none",
            has_fim=True,
            deterministic=True,
            fingerprint=unpromised("fake"),
            kv_tokens=self.num_cells,
            eos_token=_NAMES[EOS].decode(),
            end_tokens=(EOS,),
            file=f"{self.name}.gguf",
            origin=Origin(metadata=METADATA),
        )
        slot_bytes = FakeSlotBytes(runner.slots, runner.add_cells)
        return Loaded(runner, FakeVocab(), info, lists=LISTS.copy, slot_bytes=slot_bytes)
