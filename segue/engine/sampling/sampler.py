"""From a row of logits to the next token: bans and biases, the sampling steps in the requested order, the draw.

Biases come before all steps unless the order has a place for them.

The vocabulary is never sorted: each step keeps only candidates that can still win.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from segue import exact_math
from segue.engine.sampling import filters
from segue.engine.sampling.branches import branch_off
from segue.engine.sampling.candidates import Candidates, Distribution, Index
from segue.engine.sampling.choosers import AdaptiveP, ByWeight, Chooser, Mirostat
from segue.engine.sampling.dry import Dry
from segue.engine.sampling.logit_bans import LogitBans, as_changes
from segue.engine.sampling.penalties import Penalties
from segue.engine.sampling.randomness import Points
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import ADJUSTS, MAX_CUTS, Cut, Draw, Logits, Texts, Told
from segue.types import Sampling, Step


class StepInfo(NamedTuple):
    meaning: str
    is_on: Callable[[Sampling], bool]


STEPS: dict[Step, StepInfo] = {
    "penalties": StepInfo(
        "repetition, presence and frequency penalties on tokens that occurred",
        lambda s: (
            s.penalty_window != 0
            and (s.repetition_penalty, s.presence_penalty, s.frequency_penalty) != (1.0, 0.0, 0.0)
        ),
    ),
    "dry": StepInfo(
        "a cost on tokens that continue a repetition, rising with its length",
        lambda s: s.dry_multiplier != 0 and s.dry_base >= 1 and s.dry_window != 0,
    ),
    "logit_bias": StepInfo(
        "add the biases; where an order does not name it, they are added before all steps",
        lambda s: bool(s.logit_bias or s.text_bias),
    ),
    "top_n_sigma": StepInfo(
        "keep logits within n standard deviations of the highest", lambda s: s.top_n_sigma > 0
    ),
    "top_k": StepInfo("keep the k likeliest", lambda s: s.top_k > 0),
    "typical_p": StepInfo(
        "keep the mass p whose surprise is closest to the expected", lambda s: s.typical_p < 1
    ),
    "top_p": StepInfo("keep the fewest that hold the mass p", lambda s: s.top_p < 1),
    "min_p": StepInfo("keep those at least p times as likely as the best", lambda s: s.min_p > 0),
    "xtc": StepInfo(
        "with some probability, drop all but the least likely of the likely ones",
        lambda s: s.xtc_probability > 0 and s.xtc_threshold <= 0.5,
    ),
    "temperature": StepInfo(
        "flatten or sharpen, with a range by how unsure the model is; 0 takes the likeliest",
        lambda s: s.temperature != 1 or s.dynatemp_range > 0,
    ),
    "infill": StepInfo("end a middle unless one text is likely", lambda s: True),
    "adaptive_p": StepInfo(
        "last of all, prefer tokens near a target probability", lambda s: s.adaptive_target >= 0
    ),
}

_KEEP_THE_BEST: frozenset[Step] = frozenset({"top_n_sigma", "top_k", "top_p", "min_p"})

_Act = Callable[[Candidates, int], None]


class Snapshot(NamedTuple):
    """The state of a sampler that a draw changes."""

    chooser: Chooser
    branch: int | None


def plan(sampling: Sampling) -> tuple[Step, ...]:
    """The active steps, in order. At temperature 0, filters that keep the likeliest token are left out."""
    named = sampling.order
    if sampling.mirostat:
        named = (*(step for step in named if step in ADJUSTS), "temperature")
    steps = [step for step in named if STEPS[step].is_on(sampling)]
    is_greedy = sampling.temperature < filters.GREEDY_BELOW and sampling.dynatemp_range <= 0
    if is_greedy and "temperature" in steps:
        del steps[steps.index("temperature") + 1 :]
        while len(steps) > 1 and steps[-2] in _KEEP_THE_BEST:
            del steps[-2]
    return tuple(step for step in steps if step != "adaptive_p")


def cuts(sampling: Sampling, steps: Sequence[Step]) -> tuple[Cut, ...] | None:
    """These steps as cuts, which a runner can make; None if there are too many, or an adjustment is named twice."""
    s = sampling
    known: dict[Step, Cut] = {
        "penalties": Cut("penalties", 0.0, 0),
        "dry": Cut("dry", 0.0, 0),
        "logit_bias": Cut("logit_bias", 0.0, 0),
        "temperature": _temperature_cut(s),
        "top_k": Cut("top_k", 0.0, s.top_k),
        "top_p": Cut("top_p", s.top_p, s.min_keep),
        "min_p": Cut("min_p", exact_math.log(s.min_p), s.min_keep),
        "typical_p": Cut("typical_p", s.typical_p, s.min_keep),
        "top_n_sigma": Cut("top_n_sigma", s.top_n_sigma, 0),
        "xtc": Cut("xtc", s.xtc_threshold, s.min_keep),
        "infill": Cut("infill", 0.0, 0),
    }
    is_named_again = any(steps.count(step) > 1 for step in ADJUSTS)  # other steps may be
    can_cut = len(steps) <= MAX_CUTS and not is_named_again
    return tuple(known[step] for step in steps) if can_cut else None


def _temperature_cut(s: Sampling) -> Cut:
    if s.dynatemp_range > 0:
        lowest, reach = filters.temperature_range(s.temperature, s.dynatemp_range)
        return Cut("dynamic_scale", lowest, 0, reach, max(s.dynatemp_exponent, 0.0))
    is_greedy = s.temperature < filters.GREEDY_BELOW
    return Cut("top_k", 0.0, 1) if is_greedy else Cut("scale", s.temperature, 0)


class Sampler:
    """Draws the tokens of one candidate. It is told its prompt by `start`, and then every accepted token by `push`."""

    def __init__(
        self,
        sampling: Sampling,
        seed: int,
        candidate: int,
        vocab_size: int,
        rules: TokenRules | None = None,
        keeps_distribution: bool = False,
    ) -> None:
        self._sampling = sampling
        self.vocab_size = vocab_size
        # The random number in [0, 1) for the draw at a position of the output.
        self.point = Points(seed, candidate).at
        self._xtc_points = Points(seed, candidate, "xtc")
        self._rules = rules or TokenRules()
        steps = plan(sampling)
        self._forbidden = LogitBans(sampling, self._rules, "logit_bias" in steps)
        self._penalties: Penalties | None = None
        self._dry: Dry | None = None
        num_before = next((i for i, step in enumerate(steps) if step not in ADJUSTS), len(steps))
        self._adjusts = [self._act(step) for step in steps[:num_before]]
        self._acts = [self._act(step) for step in steps[num_before:]]
        # All that acts while it branches.
        self._biases = [self._act(step) for step in steps if step == "logit_bias"]
        states: tuple[Penalties | Dry | None, ...] = (self._penalties, self._dry)
        self._states = [state for state in states if state is not None]
        self._followers = [state.push for state in self._states]  # told of every token
        if self._forbidden.has_phrases:
            self._followers.append(self._forbidden.push)
        # Whether it has penalties or DRY: then a draw depends on which tokens came before.
        self.is_penalising = self._penalties is not None or self._dry is not None
        # Whether a draw that is planned ahead must be told more when the token before it is known: see `late`.
        self.has_late = self._dry is not None or self._forbidden.has_phrases
        self._chooser = _chooser(sampling, vocab_size)
        self.keeps_distribution = keeps_distribution
        self._num_adjusts = num_before
        has_infill = "infill" in steps
        self._texts = _texts(self._rules) if has_infill else None
        # A runner can make the cut infill if it has the texts, and no adjustment comes after another cut.
        can_infill = self._texts is not None and ADJUSTS.isdisjoint(steps[num_before:])
        can_cut = can_infill or not has_infill
        self._cuts = self._cuts_without_xtc = cuts(sampling, steps) if can_cut else None
        self._has_xtc = "xtc" in steps
        if self._has_xtc:
            self._cuts_without_xtc = cuts(sampling, [step for step in steps if step != "xtc"])
        self.distribution: Distribution | None = None  # of the last token, if it is kept
        self.branch: int | None = None  # see branches.py; None: no branching
        self.openings: Index | None = None  # tokens it may begin with; None: any

    @property
    def is_indifferent(self) -> bool:
        """Whether a token that a constraint forces needs no draw.

        So it is if nothing but end tokens is banned, and a draw would change nothing here.
        """
        return (
            self._forbidden.is_lenient
            and isinstance(self._chooser, ByWeight)
            and not self.keeps_distribution
            and self.branch is None
            and self.openings is None
        )

    def late(self) -> Told:
        """What depends on the last tokens, all of which were pushed: bans of phrases, and the costs of DRY."""
        bans = dict.fromkeys(self._forbidden.completing(), -np.inf)
        costs = {} if self._dry is None else self._dry.added()
        return Told(None, as_changes(bans), as_changes(costs))

    def start(self, prompt: Sequence[int]) -> None:
        for state in self._states:
            state.start(prompt)

    def push(self, token: int) -> None:
        for follow in self._followers:
            follow(token)

    def cuts(self, position: int) -> tuple[Cut, ...] | None:
        """What `choose` does, if that is to cut a whole row and to draw by weight: these cuts. None: it does more."""
        is_whole = self._rules.allowed is None and self._texts is None
        is_kept = self.keeps_distribution or self.branch is not None
        is_plain = is_whole and not is_kept and isinstance(self._chooser, ByWeight)
        found = self._cuts_at(position) if is_plain else None
        left = () if found is None else found[self._num_adjusts :]
        return None if found is None or any(cut.kind in ADJUSTS for cut in left) else left

    def draw_ahead(self, row: int, position: int, drawn: int | None = None) -> Draw | None:
        """The draw from that row of logits, described for a runner. None: a runner cannot make it.

        `drawn`: the runner's draw that gives the token before it, which is not known yet; None: that token was pushed.
        What else depends on that token is told when it is known (`has_late`).
        """
        found = self._cuts_at(position) if self._has_xtc else self._cuts
        if found is None or self.branch is not None:
            return None
        if position == 0 and self.openings is not None:
            return None
        return Draw(
            row,
            self.point(position),
            found,
            changes=self._forbidden.changes(position),
            repeats=None if self._penalties is None else self._penalties.repeats(drawn),
            feedback=self._chooser.state(drawn),
            texts=self._texts,
            biases=self._forbidden.biases,
        )

    def follow(self, feedback: float) -> None:
        """A runner has drawn a token, and this is what that draw feeds back."""
        self._chooser.follow(feedback)

    def _cuts_at(self, position: int) -> tuple[Cut, ...] | None:
        """All cuts at this position; None if a runner cannot make them."""
        is_the_same = self._cuts is None or self._cuts is self._cuts_without_xtc
        return self._cuts if is_the_same or self._does_xtc(position) else self._cuts_without_xtc

    def snapshot(self) -> Snapshot:
        return Snapshot(copy(self._chooser), self.branch)

    def restore(self, before: Snapshot) -> None:
        """Undo the draws since the snapshot. Tokens that were pushed stay."""
        self._chooser, self.branch = copy(before.chooser), before.branch

    def sample(self, logits: Logits, position: int) -> int:
        """The next token. Writes to `logits`: copy them before if they are needed later."""
        return self.choose(self.admitted(logits, position), position)

    def admitted(self, logits: Logits, position: int) -> Candidates:
        """What may be drawn: bans, biases and penalties are written to `logits`."""
        if position == 0 and self.openings is not None:
            opening = logits[self.openings]
            logits.fill(-np.inf)
            logits[self.openings] = opening
        candidates = self._forbidden.admitted(logits, position)
        for adjust in self._adjusts if self.branch is None else self._biases:
            adjust(candidates, position)
        return candidates

    def choose(self, candidates: Candidates, position: int) -> int:
        """The token that is drawn."""
        candidates.check()
        if self.branch is not None:
            is_given = position == 0 and self.openings is not None
            token, self.branch = branch_off(candidates, self.branch, self._rules.ends, is_given)
            return token
        for act in self._acts:
            act(candidates, position)
        index = self._chooser.choose(candidates, self.point(position))
        if self.keeps_distribution:
            self.distribution = Distribution(candidates.ids, candidates.weights())
        return candidates.token(index)

    def guess(self, logits: Logits, position: int) -> int:
        """A token for these logits of another model, as this sampler would draw it: for drafts. Keeps no state."""
        if not isinstance(self._chooser, ByWeight) or self.branch is not None:
            return int(np.argmax(logits))
        return self.sample(logits, position)

    def _act(self, step: Step) -> _Act:
        s = self._sampling
        match step:
            case "penalties":
                self._penalties = penalties = self._penalties or Penalties(s)
                return lambda c, _: c.adjust(penalties.apply)
            case "dry":
                self._dry = dry = self._dry or Dry(s, self._rules.breakers)
                return lambda c, _: c.adjust(dry.apply)
            case "logit_bias":
                return lambda c, _: c.adjust(self._forbidden.add_biases)
            case "top_n_sigma":
                return lambda c, _: filters.top_n_sigma(c, s.top_n_sigma)
            case "top_k":
                return lambda c, _: filters.top_k(c, s.top_k)
            case "typical_p":
                return lambda c, _: filters.typical_p(c, s.typical_p, s.min_keep)
            case "top_p":
                return lambda c, _: filters.top_p(c, s.top_p, s.min_keep)
            case "min_p":
                return lambda c, _: filters.min_p(c, s.min_p, s.min_keep)
            case "xtc":
                return self._xtc
            case "temperature":
                return self._temperature
            case "infill":
                return self._infill
        raise ValueError(f"no such sampling step: {step}")

    def _does_xtc(self, position: int) -> bool:
        return self._xtc_points.at(position) <= self._sampling.xtc_probability

    def _xtc(self, candidates: Candidates, position: int) -> None:
        s = self._sampling
        if self._does_xtc(position):
            filters.xtc(candidates, s.xtc_threshold, s.min_keep)

    def _temperature(self, candidates: Candidates, position: int) -> None:
        s = self._sampling
        if s.dynatemp_range > 0:
            filters.dynamic_temperature(
                candidates, s.temperature, s.dynatemp_range, s.dynatemp_exponent
            )
        else:
            filters.temperature(candidates, s.temperature)

    def _infill(self, candidates: Candidates, position: int) -> None:
        rules = self._rules
        end = rules.end if rules.end is not None and candidates.may_be(rules.end) else None
        filters.infill(candidates, rules.ends, end, rules.texts.__getitem__)


def _texts(rules: TokenRules) -> Texts | None:
    """For the cut infill. A list of allowed tokens may ban the end."""
    texts, allowed = rules.laid_texts, rules.allowed
    is_banned = texts is not None and allowed is not None and texts.end not in allowed.tolist()
    return replace(texts, end=None) if texts is not None and is_banned else texts


def _chooser(sampling: Sampling, vocab_size: int) -> Chooser:
    if sampling.mirostat:
        tau, eta = sampling.mirostat_tau, sampling.mirostat_eta
        return Mirostat(sampling.mirostat, tau, eta, vocab_size)
    if "adaptive_p" in sampling.order and STEPS["adaptive_p"].is_on(sampling):
        return AdaptiveP(sampling.adaptive_target, sampling.adaptive_decay)
    return ByWeight()
