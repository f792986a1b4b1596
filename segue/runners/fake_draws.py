"""What the fake runner draws: the sampler's tokens, computed as the contract of draws says it."""

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from segue import exact_math
from segue.engine.seam import ADJUSTS, MAX_CUTS, Cut, Draw, Logits, Repeats, Told

_LIKELIEST = (Cut("top_k", 0.0, 1),)


def changed(row: Logits, draw: Draw, before: Sequence[int | None] = ()) -> Logits:
    """A copy of the row with all that the draw makes of it before it cuts. `before`: what the step before drew."""
    row = row.copy()
    told = _told(draw)
    if told.allowed is not None:
        _mask(row, told.allowed)
    if draw.changes is not None:
        row[draw.changes.ids] += draw.changes.added
        _keep(row, draw.changes.only)
    if told.changes is not None:
        row[told.changes.ids] += told.changes.added
    for cut in draw.cuts[: num_adjusts(draw)]:
        adjust(row, cut, draw, before)
    return row


def num_adjusts(draw: Draw) -> int:
    """How many of its cuts are adjustments that come before all others."""
    return len([*takewhile(lambda cut: cut.kind in ADJUSTS, draw.cuts)])


def adjust(row: Logits, cut: Cut, draw: Draw, before: Sequence[int | None]) -> None:
    """Penalties, the costs of DRY, or biases."""
    costs = _told(draw).costs
    if cut.kind == "penalties" and draw.repeats is not None:
        _penalise(row, draw.repeats, before)
    if cut.kind == "dry" and costs is not None:
        row[costs.ids] += costs.added
    if cut.kind == "logit_bias" and draw.biases is not None:
        row[draw.biases.ids] += draw.biases.added


def is_late(draw: Draw) -> bool:
    """Whether it waits for what was not told, or is told to draw nothing."""
    return draw.late is not None and draw.late.told is None


def _told(draw: Draw) -> Told:
    if draw.late is None:
        return Told()
    if draw.late.told is None:
        raise RuntimeError("fake runner: a draw that was not told what it waits for")
    return draw.late.told


def _mask(row: Logits, allowed: NDArray[np.uint8]) -> None:
    bits = np.unpackbits(allowed, bitorder="little")[: row.size]
    penalties = np.full(row.size, -np.inf, np.float32)
    penalties[: bits.size][bits > 0] = 0.0
    row += penalties


def _keep(row: Logits, only: NDArray[np.int64] | None) -> None:
    if only is not None:
        kept = row[only]
        row.fill(-np.inf)
        row[only] = kept


def _penalise(row: Logits, repeats: Repeats, before: Sequence[int | None]) -> None:
    tokens: list[int] = repeats.tokens[: repeats.end].tolist()
    if repeats.drawn is not None:
        tokens.append(before[repeats.drawn] or 0)
    factors = (repeats.repetition, repeats.presence, repeats.frequency)
    repetition, presence, frequency = map(np.float32, factors)
    counts = Counter(tokens[repeats.counted :])
    taken = {token: np.float32(count) * frequency + presence for token, count in counts.items()}
    for token in taken if repeats.repetition_last else ():
        row[token] -= taken[token]
    for token in set(tokens[repeats.first :]):
        row[token] = row[token] / repetition if row[token] > 0 else row[token] * repetition
    for token in () if repeats.repetition_last else taken:
        row[token] -= taken[token]


def seen_by(draws: Sequence[Draw]) -> list[bytes]:
    """The tokens that penalties of these draws look at."""
    all_repeats = [draw.repeats for draw in draws if draw.repeats is not None]
    return [repeats.tokens[: repeats.end].tobytes() for repeats in all_repeats]


def check_repeats(repeats: Repeats | None, num_before: int, vocab_size: int) -> None:
    if repeats is None:
        return
    tokens, first, counted, end, *_, drawn = repeats
    if not 0 <= first <= counted <= end <= len(tokens):
        raise RuntimeError(f"fake runner: of {len(tokens)} tokens {first}:{counted}:{end}")
    if end and not 0 <= tokens[:end].min() <= tokens[:end].max() < vocab_size:
        raise RuntimeError("fake runner: a token occurred that there is not")
    if drawn is not None and not 0 <= drawn < num_before:
        raise RuntimeError(f"fake runner: the step before has no draw {drawn}")


def draw_by_weight(
    logits: Logits, draws: Sequence[Draw], before: Sequence[int | None] = ()
) -> Sequence[int | None]:
    """What the sampler would draw. Only of the likeliest, or with no cut but a temperature."""
    return [None if is_late(draw) else _draw(logits[draw.row], draw, before) for draw in draws]


def _draw(row: Logits, draw: Draw, before: Sequence[int | None]) -> int | None:
    _, point, cuts, changes, repeats, late, feedback, _, biases = draw
    if len(cuts) > MAX_CUTS:
        raise ValueError(f"fake runner: a draw takes {MAX_CUTS} cuts, not {len(cuts)}")
    if cuts and cuts[0].kind in ADJUSTS:
        cuts = cuts[num_adjusts(draw) :]
    if feedback is not None:
        return None
    if cuts == _LIKELIEST:
        row = changed(row, draw, before)
        return int(row.argmax()) if abs(row.max()) < np.inf else None
    if cuts and (len(cuts) > 1 or cuts[0].kind != "scale"):
        return None
    has_list = changes is not None and changes.only is not None
    if (repeats, late, biases) != (None, None, None) or has_list:
        row, changes = changed(row, draw, before), None
    key = (b"", b"") if changes is None else (changes.ids.tobytes(), changes.added.tobytes())
    sums = _running_sums(row.tobytes(), *key, cuts[0].value if cuts else 1.0)
    token = bisect_right(sums, point * sums[-1]) if sums else 0
    return token if token < len(sums) else None


@lru_cache(maxsize=2048)  # most rows come again: a token takes a search, and no sum
def _running_sums(row: bytes, ids: bytes, added: bytes, temperature: float) -> Sequence[float]:
    """Of the weights of a row with these changes; none if it has none: then the sampler says what is wrong."""
    changed_row = np.frombuffer(row, np.float32).copy()
    changed_row[np.frombuffer(ids, np.int64)] += np.frombuffer(added, np.float32)
    scaled = changed_row / np.float32(temperature)
    best = scaled.max()
    if not abs(best) < np.inf:
        return ()
    return array("d", exact_math.running_sums(exact_math.weights(scaled - best, 0.0)))
