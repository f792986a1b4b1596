"""A runner without weights: logits that are a pure function of the tokens so far, and a byte vocabulary.

For tests of the engine in milliseconds, and for `--runner fake`, which measures everything but the model.
"""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

import numpy as np

from segue import exact_math
from segue.engine.seam import Capabilities, Draw, FimTokens, Loaded, Logits, Mix, Span
from segue.fingerprint import unpromised
from segue.types import ModelInfo

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


@dataclass
class _Slot:
    tokens: list[int] = field(default_factory=list)
    states: list[int] = field(default_factory=list)  # a rolling hash after each token
    cells: list[int] = field(default_factory=list)  # ids of shared, counted cells
    adapters: Mix = ()


class FakeRunner:
    """With a `script`, the likeliest continuation at output position i is its i-th byte, over and over."""

    def __init__(
        self,
        capabilities: Capabilities | None = None,
        script: bytes | None = None,
        end_bias: float = 0.0,
        seed: int = 0,
    ) -> None:
        self._capabilities = capabilities or default_capabilities()
        self._slots: dict[int, _Slot] = {}
        self._references: dict[int, int] = {}
        self._next_cell = 0
        self.num_rows = 0  # computed so far
        self._logits: Logits = np.empty((0, VOCAB_SIZE), np.float32)  # of the last step
        self._script = script
        rng = np.random.default_rng(seed)
        table = rng.normal(0.0, 2.0, (_NUM_ROWS, VOCAB_SIZE)).astype(np.float32)
        table[:, :32] -= 4.0
        table[:, 127:] -= 3.0  # mostly printable, some stray bytes and multi-byte starts
        table[:, EOS] += end_bias
        table[:, BOS:] = -20.0
        self._table = table

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def cells_free(self) -> int:
        return self._capabilities.num_cells - len(self._references)

    def decode(self, spans: Sequence[Span]) -> Logits:
        if sum(len(span.tokens) for span in spans) > self._capabilities.max_rows:
            raise RuntimeError("fake runner: more rows than a step can carry")
        rows: list[Logits] = []
        self.num_rows += sum(len(span.tokens) for span in spans)
        for span in spans:
            slot = self._slots.setdefault(span.slot, _Slot())
            if span.past != len(slot.tokens):
                raise RuntimeError(f"fake runner: slot {span.slot} holds {len(slot.tokens)} tokens")
            if slot.tokens and slot.adapters != span.adapters:
                raise RuntimeError(
                    f"fake runner: slot {span.slot} was computed with other adapters"
                )
            slot.adapters = span.adapters
            adapted = sum(int(1000 * scale) + 7 * place for place, scale in span.adapters)
            for token in span.tokens:
                state = slot.states[-1] if slot.states else 0
                slot.tokens.append(token)
                slot.states.append((state * 31 + token + 1 + adapted) % 1_000_003)
                slot.cells.append(self._take_cell())
            if span.num_logits:
                ends = range(len(slot.tokens) - span.num_logits, len(slot.tokens))
                rows.extend(self._row(slot, end) for end in ends)
        if self.cells_free < 0:
            raise RuntimeError("fake runner: out of cells")
        self._logits = np.stack(rows) if rows else np.empty((0, VOCAB_SIZE), np.float32)
        return self._logits

    def draw(self, draws: Sequence[Draw]) -> Sequence[int | None]:
        return draw_by_weight(self._logits, draws)

    def fork(self, src: int, dst: int, length: int) -> None:
        if dst in self._slots:
            raise RuntimeError(f"fake runner: slot {dst} is not empty")
        source = self._slots[src]
        if length > len(source.tokens):
            raise RuntimeError(f"fake runner: slot {src} holds {len(source.tokens)} tokens")
        if not self._capabilities.can_trim and length != len(source.tokens):
            raise RuntimeError("fake runner: only whole slots can be forked")
        copy = _Slot(
            source.tokens[:length], source.states[:length], source.cells[:length], source.adapters
        )
        for cell in copy.cells:
            self._references[cell] += 1
        self._slots[dst] = copy

    def trim(self, slot: int, length: int) -> None:
        if not self._capabilities.can_trim and length:
            raise RuntimeError("fake runner: slots cannot be trimmed")
        held = self._slots[slot]
        for cell in held.cells[length:]:
            self._drop_cell(cell)
        del held.tokens[length:], held.states[length:], held.cells[length:]

    def free(self, slot: int) -> None:
        if slot in self._slots:
            self.trim(slot, 0)
            del self._slots[slot]

    def close(self) -> None:
        self._slots.clear()
        self._references.clear()

    def _row(self, slot: _Slot, end: int) -> Logits:
        row: Logits = self._table[slot.states[end] % _NUM_ROWS].copy()
        if self._script is not None:
            row[self._script[end % len(self._script)]] = 30.0
        return row

    def _take_cell(self) -> int:
        self._next_cell += 1
        self._references[self._next_cell] = 1
        return self._next_cell

    def _drop_cell(self, cell: int) -> None:
        self._references[cell] -= 1
        if not self._references[cell]:
            del self._references[cell]


def default_capabilities(
    num_slots: int = 256,
    num_cells: int = 65536,
    context_length: int = 4096,
    max_rows: int = 512,
    free_rows: int = 8,
) -> Capabilities:
    return Capabilities(
        num_slots=num_slots,
        num_cells=num_cells,
        context_length=context_length,
        max_rows=max_rows,
        vocab_size=VOCAB_SIZE,
        free_rows=free_rows,
        deterministic=True,
    )


def draw_by_weight(logits: Logits, draws: Sequence[Draw]) -> Sequence[int | None]:
    """What the sampler would draw, all rows in one pass. Only of draws with no cut but a temperature."""
    places = [place for place, draw in enumerate(draws) if _is_plain(draw)]
    tokens: list[int | None] = [None] * len(draws)
    if not places:
        return tokens
    scales = [draws[place].cuts[0].value if draws[place].cuts else 1.0 for place in places]
    rows = logits[[draws[place].row for place in places]] / np.array(scales, np.float32)[:, None]
    best = rows.max(axis=1)
    rows[~(abs(best) < np.inf)] = 0.0  # left to the sampler, which says what is wrong
    rows -= rows.max(axis=1)[:, None]
    weights = exact_math.weights(rows.ravel(), 0.0).reshape(rows.shape)
    sums = np.add.accumulate(weights, axis=1, dtype=np.float64)
    points = np.array([draws[place].point for place in places])
    found = (sums <= (points * sums[:, -1])[:, None]).sum(axis=1)
    for place, token, is_sound in zip(
        places, found.tolist(), (abs(best) < np.inf).tolist(), strict=True
    ):
        if is_sound and token < VOCAB_SIZE:
            tokens[place] = token
    return tokens


def _is_plain(draw: Draw) -> bool:
    return not draw.cuts or (len(draw.cuts) == 1 and draw.cuts[0].kind == "scale")


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
            self.num_slots, self.num_cells, self.context_length, self.max_rows
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
        )
        return Loaded(runner, FakeVocab(), info)
