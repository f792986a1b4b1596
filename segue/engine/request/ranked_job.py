"""Infill for models without FIM tokens: draw continuations, score the suffix after their cuts, return the best.

A job in two phases on the same scheduler. First the candidates are drawn as for best_of, without events. Then probes,
sequences that generate nothing, score the suffix after cuts of the candidates, round by round.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from segue.bounds import DRAWING_SHARE, LONGEST_MIDDLE, RANKED_CANDIDATES
from segue.engine.infill.middles import SCORED_SUFFIX, Cut, Drawn, Search, Suffix, find_cuts
from segue.engine.request.healing import Healed
from segue.engine.request.job import REASONS, Job, PreparedRequest
from segue.engine.request.output import Output, Shown
from segue.engine.request.sequence import Limits, PromptScoring, Sequence, SequenceKey
from segue.engine.seam import Model
from segue.types import (
    LOWEST_LOGPROB,
    Cause,
    Delta,
    Done,
    Event,
    Finished,
    Prompted,
    Searching,
    TokenScore,
)


class RankedJob(Job):
    has_rounds = True

    def __init__(
        self,
        prepared: PreparedRequest,
        model: Model,
        suffix: Suffix,
        healed: list[Healed | None],
    ) -> None:
        self._suffix = suffix
        self._healed = healed  # one entry per prompt
        super().__init__(prepared, model)
        self.needs_scores = True
        request, num_prompts = prepared.request, len(prepared.prompts)
        # The first candidate is what the request would get without a suffix. If it is greedy, it takes
        # the likeliest beginning, and the others start from the next.
        is_drawn = request.sampling.temperature > 0
        for sequence in self.sequences:
            sequence.watched = suffix.watched
            sequence.ends_anywhere = True
            if request.time_limit_s is not None:
                sequence.time_limit_s = request.time_limit_s * DRAWING_SHARE
            if sequence.candidate:
                sequence.sampler.branch = sequence.candidate - is_drawn
            if (taken := healed[sequence.prompt_index]) is not None:
                sequence.sampler.openings = taken.openings
                sequence.output.num_known = len(taken.text)
        num_taken = sum(taken is not None for taken in healed)
        self._usage = replace(self._usage, prompt_tokens=self._usage.prompt_tokens + num_taken)
        self._num_busy = [self.num_candidates] * num_prompts
        self._num_scored = [0] * num_prompts
        self._searches: dict[int, Search] = {}
        self._probed: dict[Sequence, Cut] = {}
        self._shown: dict[Sequence, Shown] = {}

    @property
    def num_candidates(self) -> int:
        return max(self.request.best_of or RANKED_CANDIDATES, self.request.n)

    @property
    def scores_stops(self) -> bool:
        return False  # a middle ends before its stop string, and so do its tokens

    def _num_wanted(self, index: int, num_prompt: int) -> int:
        """max_tokens, plus one if the first token repeats the text that token healing removed."""
        room = self._limits.context_length - num_prompt - SCORED_SUFFIX
        return min(self._longest + (self._healed[index] is not None), room)

    @property
    def _longest(self) -> int:
        wanted = self.request.max_tokens
        return LONGEST_MIDDLE if wanted is None else wanted

    # --- events ----------------------------------------------------------------------------------

    def prompted(self, leader: Sequence, now: float) -> list[Event]:
        taken = self._healed[leader.prompt_index]
        return [
            event
            if taken is None or not isinstance(event, Prompted)
            else replace(event, tokens=(*event.tokens, taken.token))
            for event in super().prompted(leader, now)
        ]

    def progressed(self, sequence: Sequence) -> list[Event]:
        """Progress of the search: one event per token of the first candidate, not of every candidate."""
        return [] if sequence.candidate else [self._so_far(sequence.prompt_index)]

    def _so_far(self, index: int) -> Searching:
        drawn = sum(s.num_output for s in self.sequences if s.prompt_index == index)
        return Searching(index, drawn, self._num_scored[index])

    def finished(self, sequence: Sequence) -> list[Event]:
        index = sequence.prompt_index
        self._num_open -= 1
        self._num_busy[index] -= 1
        if sequence.is_probe:
            self._learn(sequence)
            self._num_scored[index] += 1
        else:
            is_known = self._pieces(sequence, sequence.tokens[sequence.num_prompt :])[:1] == [b""]
            self._add_usage(completion=sequence.num_output - is_known)
        if self._num_busy[index]:
            return []
        search = self._search(index)
        cuts = [] if self._is_late(index, sequence.last_token_s) else search.next_round()
        self._more += [self._probe(index, cut) for cut in cuts]
        self._num_busy[index] = len(cuts)
        self._num_open += len(cuts)
        if cuts:
            return [self._so_far(index)]
        events = self._answer(index, search, sequence.last_token_s)
        if self.is_over:
            events.append(Done(self._usage, self.seed))
        return events

    def _is_late(self, index: int, now: float) -> bool:
        """Whether the time limit of the search has passed: then the cuts are ranked by the scores they have."""
        limit_s, begun = self.request.time_limit_s, self._candidate(index, 0).first_token_s
        return limit_s is not None and begun is not None and now - begun > limit_s

    # --- ranking ---------------------------------------------------------------------------------

    def _search(self, index: int) -> Search:
        if index not in self._searches:
            mates = [s for s in self.sequences if s.prompt_index == index]
            cuts = [
                cut for s in mates for cut in find_cuts(s.candidate, self._drawn(s), self._suffix)
            ]
            self._searches[index] = Search(cuts, self.request.n)
        return self._searches[index]

    def _drawn(self, sequence: Sequence) -> Drawn:
        shown = sequence.flush() or Shown("", (), ())
        self._shown[sequence] = shown
        tokens = sequence.tokens[sequence.num_prompt :][: len(shown.scores)]
        if sequence.cause in ("eos", "stop_token"):
            tokens = tokens[: sequence.num_output - 1]
        pieces = self._pieces(sequence, tokens)
        is_known = pieces[:1] == [b""]  # the first token adds nothing to the prompt
        tokens = tokens[: self._longest + is_known]
        num_shown = len(shown.text.encode())
        return Drawn(
            tokens,
            pieces[: len(tokens)],
            [LOWEST_LOGPROB if score.logprob is None else score.logprob for score in shown.scores],
            [_known(sequence.watched, row) for row in sequence.chances],
            num_bytes=num_shown if num_shown < sum(map(len, pieces)) else None,
            min_tokens=self.request.sampling.min_tokens + is_known,
            may_end=(
                None if sequence.guide is None else self._constrained_ends(sequence, len(tokens))
            ),
            stops=tuple(stop.encode(errors="replace") for stop in self.request.stop),
            bounds=sequence.bounds,
        )

    def _pieces(self, sequence: Sequence, tokens: Iterable[int]) -> list[bytes]:
        """What each token adds to the text after the prompt."""
        pieces = [self.text_piece(token) for token in tokens]
        taken = self._healed[sequence.prompt_index]
        if taken is not None and pieces:
            pieces[0] = pieces[0][len(taken.text) :]
        return pieces

    def _constrained_ends(self, sequence: Sequence, num_tokens: int) -> list[bool]:
        """Entry i: whether the middle may end after i tokens. The constraint is met, or the candidate ended there."""
        ends = sequence.guide.may_end() if sequence.guide is not None else []
        ends += [False] * (num_tokens + 1 - len(ends))
        ends[num_tokens] |= sequence.cause == "max_tokens"
        return ends

    def _probe(self, index: int, cut: Cut) -> Sequence:
        """A sequence that scores the tail from its first unscored token; its last row scores one token more."""
        leader = self._candidate(index, 0)
        base = [*leader.tokens[: leader.num_prompt], *cut.tokens]
        end = cut.goal - 1
        probe = Sequence(
            SequenceKey(self.request.request_id, index, cut.candidate),
            [*base, *cut.tail[:end]],
            leader.sampler,
            Output(()),
            limits=Limits(0),
            scoring=PromptScoring(0, start=len(base) + len(cut.scored)),
            watched=(cut.tail[end],),
            kv=self._kv(index),
            leader=leader,
            is_probe=True,
        )
        self._probed[probe] = cut
        return probe

    def _learn(self, probe: Sequence) -> None:
        cut = self._probed.pop(probe)
        if probe.scores is not None:
            cut.scored += map(float, probe.scores.logprobs)
        cut.scored += (value for value in probe.chances[-1] if value is not None)

    def _candidate(self, index: int, candidate: int) -> Sequence:
        return self.sequences[index * self.num_candidates + candidate]

    # --- the answer ------------------------------------------------------------------------------

    def _answer(self, index: int, search: Search, now: float) -> list[Event]:
        leader = self._candidate(index, 0)
        nothing = Cut(0, (), b"", (), 0.0)  # every candidate ended without a token
        best = search.best or [nothing]
        best += best[:1] * (self.request.n - len(best))
        events: list[Event] = []
        for rank, cut in enumerate(best):
            sequence = self._candidate(index, cut.candidate)
            choice = self._choice(index, rank)
            scores = self._shown_scores(sequence, cut)
            cause = self._cause(sequence, cut)
            first = leader.first_token_s or now
            if scores:
                tokens = tuple(score.token for score in scores)
                shown = scores if self.request.logprobs is not None else None
                events.append(Delta(choice, cut.text.decode(), tokens, shown))
            events.append(
                Finished(
                    choice,
                    REASONS[cause],
                    cause,
                    len(scores),
                    stop=sequence.stop if cause == "stop_text" else None,
                    prompt_s=max(0.0, first - (leader.prompt_started_s or first)),
                    decode_s=max(0.0, now - first),
                )
            )
        return events

    def _cause(self, sequence: Sequence, cut: Cut) -> Cause:
        """The cause of the middle's end. A cut middle ends as by an end token: the suffix follows."""
        if not cut.tokens and sequence.cause == "dead_end":
            return "dead_end"
        is_whole = cut.text == self._shown[sequence].text.encode(errors="replace")
        return sequence.cause if is_whole and sequence.cause is not None else "eos"

    def _shown_scores(self, sequence: Sequence, cut: Cut) -> tuple[TokenScore, ...]:
        """Scores of the middle's tokens. The piece of the last token is cut where the middle ends."""
        drawn = self._shown[sequence].scores[: len(cut.tokens)]
        tail = zip(cut.tail, cut.scored, strict=False)  # scored as far as was needed
        more = (TokenScore(token, self._vocab.piece(token), value, 0, ()) for token, value in tail)
        scores = (*drawn, *more)
        pieces = self._pieces(sequence, (score.token for score in scores))
        shown: list[TokenScore] = []
        left = len(cut.text)
        for score, piece in zip(scores, pieces, strict=True):
            if left and piece:
                shown.append(replace(score, piece=piece[:left]))
                left -= min(left, len(piece))
        return tuple(shown)


def _known(watched: tuple[int, ...], row: list[float | None]) -> dict[int, float]:
    return {token: value for token, value in zip(watched, row, strict=True) if value is not None}
