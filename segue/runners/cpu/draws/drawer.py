"""The Python side of draws: writes records for the kernels, and reads the drawn tokens from them."""

import struct
import sys
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segue.engine.seam import (
    ADJUSTS,
    MAX_CUTS,
    AdaptiveState,
    Changes,
    Cut,
    CutKind,
    Draw,
    Feedback,
    Late,
    Logits,
    MirostatState,
    Repeats,
    Texts,
    Told,
)
from segue.runners.cpu.draws import chain
from segue.runners.cpu.draws import records as of
from segue.runners.cpu.memory import address, zeros
from segue.runners.cpu.products import machine_code
from segue.runners.cpu.products.machine_code import Kept
from segue.runners.cpu.products.processor import Target
from segue.runners.cpu.step import board as on

_KINDS: dict[CutKind, int] = {
    "scale": of.SCALE,
    "dynamic_scale": of.DYNAMIC_SCALE,
    "top_k": of.TOP_K,
    "top_p": of.TOP_P,
    "min_p": of.MIN_P,
    "typical_p": of.TYPICAL_P,
    "top_n_sigma": of.TOP_N_SIGMA,
    "xtc": of.XTC,
    "infill": of.INFILL,
    "penalties": of.PENALTIES,
    "dry": of.DRY,
    "logit_bias": of.LOGIT_BIAS,
}
_RECORD_BYTES = 8 * of.RECORD_WORDS
_HEAD = struct.Struct("=qd")
_EARLY = struct.Struct(f"={of.MOST_EARLY}qq")  # and how many other cuts there are
_CUT = struct.Struct("=qdqdd")
_REPEATS = struct.Struct("=qqqqfffi")  # from of.SEEN on
_NO_REPEATS = bytes(_REPEATS.size)
_FEEDBACK = struct.Struct("=qddqd")  # from of.FEEDBACK_KIND on
_NO_FEEDBACK = MirostatState(of.NO_FEEDBACK, 0.0, 0.0, 0.0)
_COUNT, _NAPS = 3, 8  # indices of the instruction's words with the number of draws, and of naps
# Of all threads of a step together, while they wait to be told: some 2 ms of one thread, less where several wait.
# Windows naps for a tick of its clock.
_MOST_NAPS = 2 if sys.platform == "win32" else 20
_LARGEST = 1 << 31
_row = itemgetter(0)  # of a draw


def draws_code(target: Target, kept: Kept) -> int:
    """The address of the kernel that draws."""
    return machine_code.load_module("draws", chain.module, [chain.NAME], target, kept)[chain.NAME]


class Drawer:
    """The kernel that draws, and memory for the threads that run it."""

    def __init__(self, vocab_size: int, threads: int, target: Target, kept: Kept):
        self.vocab_size, self._part = vocab_size, of.part_bytes(vocab_size)
        self._scratch: NDArray[np.uint8] = zeros(threads * of.NUM_PARTS * self._part, np.uint8)
        self._code = draws_code(target, kept)

    def instruction(self, logits: Logits, records: NDArray[np.int64]) -> list[int]:
        """The words of phase.py, in its order."""
        words = [on.DRAW, self._code, address(records), 0, address(logits), self.vocab_size]
        return [*words, address(self._scratch), self._part, _MOST_NAPS]


class Draws:
    """The draws from one array of logits: records of a step, and the instruction that draws them."""

    def __init__(self, drawer: Drawer, logits: Logits, instruction: NDArray[np.int64]):
        """Writes the instruction: a row of a program."""
        self._num_rows, self._vocab_size = logits.shape
        self._records: NDArray[np.int64] = zeros((self._num_rows, of.RECORD_WORDS), np.int64)
        self._bytes = self._records.data.cast("B")
        self._tokens = self._records[:, of.TOKEN]
        # Where the first drawn token is; the others follow a record apart.
        self.tokens_address = address(self._tokens)
        self._changes: list[Changes | None] = [None] * self._num_rows
        self._biases: list[Changes | None] = [None] * self._num_rows
        self._seen: list[_Seen | None] = [None] * self._num_rows
        self._late: list[Late | None] = [None] * self._num_rows
        self._texts: list[Texts | None] = [None] * self._num_rows
        self._has_feedback = [False] * self._num_rows
        self._feedback = self._records.view(np.float64)[:, of.FEEDBACK_AFTER]
        self._totals = self._records.view(np.float64)[:, of.TOTAL]
        self._count = 0
        self._instruction = instruction
        self._drawer = drawer  # has the memory that the instruction names
        words = drawer.instruction(logits, self._records)
        instruction[: len(words)] = words

    def __len__(self) -> int:
        return self._count

    def write(self, draws: Sequence[Draw], num_rows: int, before: "Draws | None" = None) -> None:
        """Write the records of draws from the first `num_rows` rows. Raises if one is out of bounds.

        `before`: the draws of the step before, if it is open; repeats may name them.
        """
        most = min(num_rows, self._num_rows)
        self._count = 0
        if len(draws) > self._num_rows:
            raise ValueError(f"{len(draws)} draws, but there are {self._num_rows} rows of logits")
        if len(set(map(_row, draws))) < len(draws):
            _check_shared(draws)
        for number, draw in enumerate(draws):
            row, point, cuts, changes, repeats, late, feedback, texts, biases = draw
            if not 0 <= row < most:
                raise ValueError(f"there is no row {row} of logits")
            place = number * _RECORD_BYTES
            _HEAD.pack_into(self._bytes, place, row, point)
            said, needs_texts = _encoded(cuts)
            place += _HEAD.size
            self._bytes[place : place + len(said)] = said
            if changes is not self._changes[number]:
                self._change(number, changes)
            if biases is not self._biases[number]:
                self._bias(number, biases)
            if repeats is not None:
                self._penalise(number, repeats, before)
            elif self._seen[number] is not None:
                self._penalise_nothing(number)
            if late is not self._late[number]:
                self._records[number, of.AWAITED] = 0 if late is None else address(late.words)
                self._late[number] = late  # the record has the address of its words
            if feedback is not None or self._has_feedback[number]:
                self._feed_back(number, feedback, before)
            if texts is not self._texts[number]:
                self._read(number, texts)
            if needs_texts and texts is None:
                raise ValueError("infill needs texts of tokens")
        self._count = self._instruction[_COUNT] = len(draws)

    def read(self) -> list[int | None]:
        """The token of each draw; None if the sampler must draw it."""
        tokens: list[int] = self._tokens[: self._count].tolist()
        if not tokens or min(tokens) >= 0:
            return [*tokens]
        return [token if token >= 0 else None for token in tokens]

    def read_feedback(self) -> list[float]:
        """What each draw feeds back, a number without meaning where it has no feedback. Empty if none has any."""
        if not any(self._has_feedback[: self._count]):
            return []
        found: list[float] = self._feedback[: self._count].tolist()
        return found

    def _change(self, number: int, changes: Changes | None) -> None:
        """Write what a draw changes, and keep it: the record has its address."""
        added, only = [0, 0, 0], [0, 0]
        if changes is not None:
            added = _addresses(changes, self._vocab_size)
            only = _listed(changes.only, self._vocab_size)
        self._records[number, of.CHANGED_IDS : of.NUM_CHANGES + 1] = added
        self._records[number, of.ONLY : of.NUM_ONLY + 1] = only
        self._changes[number] = changes

    def _bias(self, number: int, biases: Changes | None) -> None:
        """Write what the cut `logit_bias` adds, and keep it."""
        added = [0, 0, 0] if biases is None else _addresses(biases, self._vocab_size)
        self._records[number, of.BIASED_IDS : of.NUM_BIASES + 1] = added
        self._biases[number] = biases

    def _read(self, number: int, texts: Texts | None) -> None:
        """Write where the texts of tokens are, and keep them."""
        about = [0] * 4 if texts is None else _laid(texts, self._vocab_size)
        self._records[number, of.TEXT_STARTS : of.END + 1] = about
        self._texts[number] = texts

    def _penalise(self, number: int, repeats: Repeats, before: "Draws | None") -> None:
        """Write which tokens a draw penalises, and keep their array: the record has an address in it."""
        tokens, first, counted, end, *factors, drawn = repeats
        seen = self._seen[number]
        if seen is None or seen.tokens is not tokens:
            seen = self._seen[number] = _seen(tokens)
        if not 0 <= first <= counted <= end <= seen.size:
            raise ValueError(f"of {seen.size} tokens that occurred, {first}:{counted}:{end}")
        last = 0 if drawn is None else _of_before(before, drawn)
        start = seen.address + 8 * first
        place = number * _RECORD_BYTES + 8 * of.SEEN
        uncounted = counted - first
        _REPEATS.pack_into(self._bytes, place, start, end - first, uncounted, last, *factors)

    def _penalise_nothing(self, number: int) -> None:
        place = number * _RECORD_BYTES + 8 * of.SEEN
        self._bytes[place : place + _REPEATS.size] = _NO_REPEATS
        self._seen[number] = None

    def _feed_back(self, number: int, feedback: Feedback | None, before: "Draws | None") -> None:
        """Write the numbers of mirostat or adaptive-p, and where the feedback is that the draw takes."""
        self._has_feedback[number] = feedback is not None
        if isinstance(feedback, AdaptiveState):
            kind, (target, rate, last, total, drawn) = of.ADAPTIVE_P, feedback
            self._totals[number] = total
        else:  # mirostat's version is its kind
            kind, target, rate, last, drawn = feedback or _NO_FEEDBACK
            if not of.NO_FEEDBACK <= kind <= of.MIROSTAT_2:
                raise ValueError(f"there is no version {kind} of mirostat")
        place = number * _RECORD_BYTES
        if drawn is None:
            taken_at = self.tokens_address + place + 8 * (of.FEEDBACK_BEFORE - of.TOKEN)
        else:
            taken_at = _of_before(before, drawn) + 8 * (of.FEEDBACK_AFTER - of.TOKEN)
        place += 8 * of.FEEDBACK_KIND
        _FEEDBACK.pack_into(self._bytes, place, kind, target, rate, taken_at, last)


def _of_before(before: Draws | None, drawn: int) -> int:
    """Where a token is that a draw of the step before gives."""
    if before is None or not 0 <= drawn < len(before):
        raise ValueError(f"the step before has no draw {drawn}")
    return before.tokens_address + _RECORD_BYTES * drawn


def write_told(late: Late, told: Told | None, vocab_size: int) -> tuple[int, int]:
    """Where kernels wait to be told, and what they are to find there: where the other words are."""
    place = address(late.words)
    if told is None:
        return place, -1
    allowed, changes, costs = told
    size = -(-vocab_size // 8)
    if allowed is not None and (allowed.size < size or not allowed.flags.c_contiguous):
        allowed = np.concatenate([allowed, np.zeros(max(0, size - allowed.size), np.uint8)])
    late.told = Told(allowed, changes, costs)  # kernels get the addresses of its arrays
    late.words[1] = 0 if allowed is None else address(allowed)
    for first, added in ((2, changes), (5, costs)):
        words = (0, 0, 0) if added is None else _addresses(added, vocab_size)
        late.words[first : first + 3] = words
    return place, place + 8


class _Seen(NamedTuple):
    """Tokens that were checked. What they are, the kernel checks: more may come."""

    tokens: NDArray[np.int64]
    address: int
    size: int


def _seen(tokens: NDArray[np.int64]) -> _Seen:
    if tokens.dtype != np.int64 or tokens.ndim != 1:
        raise ValueError("tokens that occurred are a row of int64")
    if not (tokens.flags.c_contiguous and tokens.flags.aligned):
        raise ValueError("tokens that occurred are an array without gaps")
    return _Seen(tokens, address(tokens), tokens.size)


def _check_shared(draws: Sequence[Draw]) -> None:
    """Raise for a row that a draw changes while another thread may draw from it."""
    rows = Counter(map(_row, draws))
    for draw in draws:
        changing = (draw.changes, draw.repeats, draw.late, draw.biases)
        if changing != (None, None, None, None) and rows[draw.row] > 1:
            raise ValueError(f"row {draw.row} is changed by one draw and has {rows[draw.row]}")


def _addresses(changes: Changes, vocab_size: int) -> list[int]:
    ids, added = changes.ids, changes.added
    if ids.dtype != np.int64 or added.dtype != np.float32 or ids.shape != (added.size,):
        raise ValueError("changes are token ids in int64, and as many float32")
    if not (ids.flags.c_contiguous and added.flags.c_contiguous and ids.size <= vocab_size):
        raise ValueError("changes are arrays without gaps, at most as long as the vocabulary")
    if ids.size and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError("a change names a token that the model does not have")
    return [address(ids), address(added), ids.size]


def _laid(texts: Texts, vocab_size: int) -> list[int]:
    starts, joined, are_ends = texts.starts, texts.joined, texts.are_ends
    if starts.dtype != np.int64 or starts.shape != (vocab_size + 1,):
        raise ValueError("texts begin at places in int64, one more than there are tokens")
    if joined.dtype != np.uint8 or are_ends.dtype != np.uint8:
        raise ValueError("texts are bytes, and so is what says which tokens are ends")
    arrays: tuple[NDArray[Any], ...] = (starts, joined, are_ends)
    if are_ends.shape != (vocab_size,) or not all(each.flags.c_contiguous for each in arrays):
        raise ValueError("texts are arrays without gaps, and a byte for each token if it ends")
    if starts[0] < 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > joined.size:
        raise ValueError("texts begin one after another, and end where their bytes do")
    if texts.end is not None and not 0 <= texts.end < vocab_size:
        raise ValueError("texts name an end that the model does not have")
    return [*(address(each) for each in arrays), -1 if texts.end is None else texts.end]


def _listed(only: NDArray[np.int64] | None, vocab_size: int) -> list[int]:
    if only is None:
        return [0, 0]
    if only.dtype != np.int64 or only.ndim != 1 or not only.flags.c_contiguous:
        raise ValueError("a list of allowed tokens is a row of int64 without gaps")
    if not only.size or not (only[1:] > only[:-1]).all():
        raise ValueError("a list of allowed tokens has one at least, and they ascend")
    if only[0] < 0 or only[-1] >= vocab_size:
        raise ValueError("a list of allowed tokens names one that the model does not have")
    return [address(only), only.size]


@lru_cache(1024)
def _encoded(cuts: tuple[Cut, ...]) -> tuple[bytes, bool]:
    """The bytes of a record after its row and point: early adjustments, the number of other cuts, then these.

    And whether they need the texts of tokens.
    """
    if len(cuts) > MAX_CUTS:
        raise ValueError(f"{len(cuts)} cuts, but a draw takes {MAX_CUTS}")
    kinds = [cut.kind for cut in cuts]
    if any(kinds.count(kind) > 1 for kind in ADJUSTS):
        raise ValueError("penalties, dry and biases act once in a draw")
    early = tuple(takewhile(ADJUSTS.__contains__, kinds))
    others = cuts[len(early) :]
    parts = [
        _CUT.pack(_KINDS[kind], value, min(count, _LARGEST), *more)
        for kind, value, count, *more in others
    ]
    before = [_KINDS[kind] for kind in early] + [of.NO_CUT] * (of.MOST_EARLY - len(early))
    return _EARLY.pack(*before, len(others)) + b"".join(parts), "infill" in kinds
