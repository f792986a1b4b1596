"""A fake runner whose steps are begun ahead and counted, requests that come and go, and what of answers is compared."""

import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from segue.engine.sampling import filters
from segue.engine.sampling.candidates import Candidates
from segue.engine.seam import (
    ADJUSTS,
    AdaptiveState,
    Capabilities,
    Draw,
    Logits,
    Span,
    Step,
    Texts,
)
from segue.runners.fake import FakeRunner, default_capabilities
from segue.runners.fake_draws import adjust, changed, is_late, num_adjusts
from segue.types import (
    CompletionRequest,
    Delta,
    Done,
    Event,
    Finished,
    Prompted,
    Sampling,
    Searching,
)
from tests.engine.draws import choose, cut
from tests.engine.harness import Bench, RequestEvents, ask


class AheadRunner(FakeRunner):
    """Draws by cuts, all but every `skips`-th draw, and counts steps begun while another is open."""

    patience_s = 60.0

    def __init__(
        self, limits: Capabilities, skips: int, end_bias: float, script: bytes | None
    ) -> None:
        super().__init__(limits, end_bias=end_bias, script=script)
        self._skips = skips
        self._count = itertools.count(1)
        self.num_begun = Counter[bool]()
        self._feedback: list[float] = []
        self._last_feedback: list[float] = []  # of the step that was ended last

    def begin(self, spans: Sequence[Span], draws: Sequence[Draw]) -> None:
        self.num_begun[bool(self._open)] += 1
        super().begin(spans, draws)

    def end(self) -> Step:
        step = super().end()
        self._last_feedback = self._feedback
        return step._replace(feedback=self._feedback)

    def drawn(self, logits: Logits, draws: Sequence[Draw]) -> Sequence[int | None]:
        self._feedback = [0.0] * len(draws)
        return [
            None if is_late(draw) else self._from(logits[draw.row], draw, number)
            for number, draw in enumerate(draws)
        ]

    def _from(self, row: Logits, draw: Draw, number: int) -> int | None:
        row = changed(row, draw, self._last_drawn)
        is_skipped = self._skips and next(self._count) % self._skips == 0
        if is_skipped or not abs(row.max()) < np.inf:
            return None
        candidates = Candidates(row)
        for each in draw.cuts[num_adjusts(draw) :]:
            if each.kind in ADJUSTS:
                change = partial(adjust, cut=each, draw=draw, before=self._last_drawn)
                candidates.adjust(change)
            elif each.kind == "infill" and draw.texts is not None:
                infill(candidates, draw.texts)
            else:
                cut(candidates, each)
        mu = 0.0
        if draw.feedback is not None:
            before, state = draw.feedback.drawn, draw.feedback
            own = state.sum if isinstance(state, AdaptiveState) else state.mu
            mu = own if before is None else self._last_feedback[before]
        token, self._feedback[number] = choose(candidates, draw, row.size, mu)
        return token

    @property
    def num_ahead(self) -> int:
        return self.num_begun[True]


def infill(candidates: Candidates, texts: Texts) -> None:
    def text(token: int) -> bytes:
        return texts.joined[texts.starts[token] : texts.starts[token + 1]].tobytes()

    end = texts.end if texts.end is not None and candidates.may_be(texts.end) else None
    filters.infill(candidates, {*np.flatnonzero(texts.are_ends).tolist()}, end, text)


def runner(
    *,
    skips: int = 0,
    end_bias: float = 0.0,
    script: bytes | None = None,
    can_give_back: int = 0,
    **limits: int,
) -> AheadRunner:
    """With `can_give_back`, its slots cannot be trimmed, but give back so many tokens."""
    capabilities = default_capabilities(**{"rows_ahead": 16, **limits})
    can_trim = not can_give_back
    capabilities = replace(capabilities, draws=True, can_trim=can_trim, can_give_back=can_give_back)
    return AheadRunner(capabilities, skips, end_bias, script)


def plain(number: int = 0, **fields: Any) -> CompletionRequest:
    sampling = Sampling(seed=number, temperature=0.9, ignore_eos=True)
    return ask(f"{number} says: ", **{"sampling": sampling, "max_tokens": 20, **fields})


def _timeless(event: Event) -> Event:
    match event:
        case Prompted():
            return msgspec.structs.replace(event, prompt_s=0.0, num_cached=0)
        case Delta():
            return msgspec.structs.replace(event, decode_s=0.0)
        case Finished():
            return msgspec.structs.replace(event, prompt_s=0.0, decode_s=0.0)
        case Done():
            usage = msgspec.structs.replace(event.usage, cached_tokens=0)
            return msgspec.structs.replace(event, usage=usage)
    return event


def same(story: RequestEvents) -> object:
    """What must be the same: all events of each choice, without times and without what others left in the cache.

    How choices take turns depends on the load, and so does what is told of a search while it runs.
    """
    told: dict[int | None, list[Event]] = {}
    for event in story.events:
        if not isinstance(event, Searching):
            told.setdefault(getattr(event, "choice", None), []).append(_timeless(event))
    return story.essence, told


def arrive(
    crowd: Bench, asked: Sequence[CompletionRequest], chance: random.Random, most_steps: int
) -> set[str]:
    """One after another, with some steps between them; some are cancelled, any of them. The ids of these."""
    cancelled = set()
    for request in asked:
        crowd.submit(request)
        for _ in range(chance.randint(0, most_steps)):
            crowd.step()
        if chance.random() < 0.2:
            victim = chance.choice(asked).request_id
            crowd.scheduler.cancel(victim)
            cancelled.add(victim)
            crowd.scheduler.check()
    return cancelled


def check_answers(crowd: Bench, alone: Mapping[str, RequestEvents], cancelled: set[str]) -> None:
    """Each is the same as alone, or the beginning of it if it was cancelled."""
    for request_id, whole in alone.items():
        story = crowd.stories[request_id]
        if request_id not in cancelled:
            assert same(story) == same(whole)
        else:
            for choice, text in story.texts.items():
                assert whole.texts[choice].startswith(text)
