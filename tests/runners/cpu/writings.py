"""Sequences whose draws are a function of a seed and their length, and what the sampler draws for them."""

import random
from dataclasses import dataclass

import numpy as np

from segue.engine.sampling.candidates import Candidates
from segue.engine.sampling.penalties import Penalties
from segue.engine.seam import Changes, Cut, Draw, Late, Logits, MirostatState, Mix, Told
from segue.runners.cpu.runner import CpuRunner
from segue.types import Sampling
from tests.engine.draws import choose, cut

GREEDY = (Cut("top_k", 0.0, 1),)
PENALTIES, DRY = Cut("penalties", 0.0, 0), Cut("dry", 0.0, 0)
CUTS: tuple[tuple[Cut, ...], ...] = (
    (),
    GREEDY,
    (Cut("scale", 0.8, 0),),
    (Cut("top_k", 0.0, 40), Cut("top_p", 0.9, 0), Cut("scale", 1.3, 0)),
    (Cut("min_p", -3.0, 2),),
    (Cut("dynamic_scale", 0.2, 0, 0.9, 1.3),),
    (Cut("typical_p", 0.8, 0), Cut("scale", 0.7, 0)),
    (Cut("top_n_sigma", 1.5, 0), Cut("xtc", 0.05, 1)),
)


@dataclass
class Writing:
    """A sequence with cuts and changes of its own. Its draws are a function of its seed and its length."""

    slot: int
    vocab_size: int
    seed: int
    prompt: list[int]
    cuts: tuple[Cut, ...]
    changes: Changes | None
    penalised: Sampling | None
    mirostat: MirostatState | None
    mix: Mix
    is_held: bool = False  # by what is told late, which depends on its length
    length: int = 0
    token: int | None = 0  # the last one, which the next step computes
    penalties: Penalties | None = None
    mu: float = 0.0

    def start(self) -> None:
        """All but the last token of the prompt were read; the first step computes that one."""
        self.length, self.token = len(self.prompt) - 1, self.prompt[-1]
        self.mu = 0.0 if self.mirostat is None else self.mirostat.mu
        if self.penalised is not None:
            self.penalties = Penalties(self.penalised)
            self.penalties.start(self.prompt)

    def draw(self, row: int, drawn: int | None = None) -> Draw:
        """Now and then every token is banned, so that the draw gives none. `drawn`: the draw that gives its token."""
        point = random.Random(f"{self.seed} {self.length}").random()
        every = np.arange(self.vocab_size, dtype=np.int64)
        none = Changes(every, np.full(self.vocab_size, -np.inf, np.float32))
        repeats = None if self.penalties is None else self.penalties.repeats(drawn)
        late = Late() if self.is_held else None
        changes = none if point > 0.9 else self.changes
        mirostat = self.mirostat and self.mirostat._replace(mu=self.mu, drawn=drawn)
        return Draw(row, point, self.cuts, changes, repeats, late, mirostat)

    def told(self, length: int) -> Told | None:
        """What is told to the draw after so many tokens. Now and then nothing is to be drawn."""
        random = np.random.default_rng([self.seed, length])
        size = -(-self.vocab_size // 8) - random.integers(3)  # what is not told is not allowed
        if random.random() < 0.1:
            return None
        ids = random.permutation(self.vocab_size)[:20]
        added = np.where(random.random(20) < 0.3, -np.inf, random.normal(size=20))
        changes = Changes(ids, added.astype(np.float32)) if random.random() < 0.5 else None
        allowed = random.integers(0, 256, size, np.uint8) if random.random() < 0.5 else None
        costs = Changes(ids[::-1].copy(), np.abs(added).clip(max=9.0).astype(np.float32))
        return Told(allowed, changes, costs)

    def push(self, token: int | None, mu: float = 0.0) -> None:
        self.token, self.mu = token, mu
        if self.penalties is not None:
            self.penalties.push(token or 0)


def some_writing(runner: CpuRunner, slot: int, seed: int) -> Writing:
    draw, size = random.Random(seed), runner.capabilities.vocab_size
    ids = np.array(draw.sample(range(size), 9), np.int64)
    added = np.array([draw.choice([-np.inf, 2.5, -1.0]) for _ in ids], np.float32)
    prompt = [draw.randrange(size) for _ in range(draw.randrange(1, 40))]
    mixes: list[Mix] = [(), ((0, 1.0),)] if runner.capabilities.adapters else [()]
    changes = draw.choice([None, Changes(ids, added)])
    cuts, mix = [*draw.choice(CUTS)], draw.choice(mixes)
    penalised = Sampling(
        repetition_penalty=draw.choice([1.0, 1.4]),
        presence_penalty=draw.choice([0.0, 0.6, -0.3]),
        frequency_penalty=draw.choice([0.0, 0.2]),
        penalty_window=draw.choice([-1, 1, 2, 30]),
        penalize_prompt=draw.choice([False, True]),
    )
    penalties = draw.choice([None, penalised])
    is_held = draw.choice([False, True])
    mirostat = draw.choice(
        [None, None, MirostatState(1, 3.0, 0.2, 6.0), MirostatState(2, 4.0, 0.1, 8.0)]
    )
    for adjustment, acts in ((PENALTIES, penalties is not None), (DRY, is_held)):
        if acts:
            cuts.insert(draw.randint(0, len(cuts)), adjustment)
    about = (slot, size, seed, prompt, tuple(cuts), changes, penalties, mirostat, mix, is_held)
    return Writing(*about)


def restrict(row: Logits, told: Told | None) -> None:
    allowed = np.empty(0, np.uint8) if told is None else told.allowed
    if allowed is None:
        return
    bits = np.unpackbits(allowed, bitorder="little")
    banned = np.ones(row.size, bool)
    banned[: bits.size] = bits[: row.size] == 0
    row[banned] = -np.inf


def drawn_alone(writing: Writing, draw: Draw, row: Logits) -> int | None:
    """The draw as the sampler makes it, in Python; None where nothing is to be drawn."""
    told: Told | None = Told() if draw.late is None else writing.told(writing.length)
    restrict(row, told)
    if draw.changes is not None:
        row[draw.changes.ids] += draw.changes.added
    if told is None:
        return None
    if told.changes is not None:
        row[told.changes.ids] += told.changes.added
    if row.max() == -np.inf:
        return None
    candidates, costs = Candidates(row), told.costs

    def add_costs(logits: Logits) -> None:
        if costs is not None:
            logits[costs.ids] += costs.added

    for each in draw.cuts:
        if each.kind == "penalties" and writing.penalties is not None:
            candidates.adjust(writing.penalties.apply)
        elif each.kind == "dry":
            candidates.adjust(add_costs)
        else:
            cut(candidates, each)
    token, writing.mu = choose(candidates, draw, row.size, writing.mu)
    return token
