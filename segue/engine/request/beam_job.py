"""Beam search as a job: round by round, a sequence for each beam computes its last token and what may follow it.

These sequences draw nothing. Each finds the tokens before its last one in the prefix cache, where the sequence of the
round before left them: that is the fork of a beam into several. Sampling has no effect: the same request gives the
same texts.
"""

from segue.engine.request.beams import Beam, BeamSearch
from segue.engine.request.job import REASONS, Job, PreparedRequest
from segue.engine.request.output import Output, Shown
from segue.engine.request.sequence import Limits, PromptScoring, Sequence, SequenceKey
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.scores import Scores
from segue.engine.seam import Model
from segue.errors import InvalidField
from segue.types import (
    Alternative,
    Cause,
    CompletionRequest,
    Delta,
    Done,
    Event,
    Finished,
    Sampling,
    Searching,
    TokenScore,
)


def check_beams(request: CompletionRequest) -> None:
    """Raises InvalidField for what cannot be combined with beam search."""
    s = request.sampling
    given: tuple[tuple[str, object], ...] = (
        ("suffix", request.infill),
        ("prompt_logprobs", request.prompt_logprobs is not None),
        ("post_sampling_probs", request.post_sampling_probs),
        ("logprob_token_ids", request.logprob_token_ids),
        ("stop", request.stop),
        ("n_indent", request.min_indent),
        ("t_max_predict_ms", request.time_limit_s),
        ("repetition_detection", request.repetition),
        ("shift", request.shift),
        ("min_tokens", s.min_tokens),
        ("logit_bias", s.logit_bias or s.text_bias),
        ("allowed_token_ids", s.allowed_token_ids is not None),
        ("bad_words", s.bad_words),
    )
    constraint = request.constraint
    named = ((constraint.param if constraint else "", constraint is not None), *given)
    for field, is_given in named:
        if is_given:
            raise InvalidField(f"{field} cannot be combined with use_beam_search", field)
    if request.max_tokens == 0:
        raise InvalidField("max_tokens must be at least 1 with use_beam_search", "max_tokens")


class BeamJob(Job):
    has_rounds = True

    def __init__(self, prepared: PreparedRequest, model: Model) -> None:
        self._searches: list[BeamSearch] = []  # one entry per prompt
        self._rounds: list[list[Sequence]] = []  # the sequences of the beams that go on
        super().__init__(prepared, model)

    def _candidates(self, index: int, prompt: list[int]) -> list[Sequence]:
        """The one sequence of the first round: the prompt itself."""
        width, wanted = self.num_candidates, self._num_wanted(index, len(prompt))
        penalty = self.request.length_penalty
        self._searches.append(BeamSearch(width, wanted, penalty, self._ends_by))
        sampler = Sampler(Sampling(), self.seed, 0, self._limits.vocab_size)
        root = self._sequence(index, 0, prompt, sampler, None)
        self._rounds.append([root])
        return [root]

    def _ends_by(self, token: int) -> Cause | None:
        cause = self.rules.causes.get(token)
        return None if cause == "eos" and self.rules.ignores_ends else cause

    def _sequence(
        self, index: int, rank: int, tokens: list[int], sampler: Sampler, root: Sequence | None
    ) -> Sequence:
        made = Sequence(
            SequenceKey(self.request.request_id, index, rank),
            tokens,
            sampler,
            Output(()),
            limits=Limits(0),
            scoring=PromptScoring(),
            kv=self._kv(index),
            leader=root,
        )
        made.num_next = self._searches[index].num_alternatives
        return made

    def finished(self, sequence: Sequence) -> list[Event]:
        index, root = sequence.prompt_index, self.sequences[sequence.prompt_index]
        self._num_open -= 1
        if any(each.cause is None for each in self._rounds[index]):
            return []
        search = self._searches[index]
        search.advance([self._following(each.following) for each in self._rounds[index]])
        prompt = root.tokens
        more = [
            self._sequence(index, rank, [*prompt, *beam.tokens], root.sampler, root)
            for rank, beam in enumerate(search.beams)
        ]
        self._rounds[index] = more
        self._more += more
        self._num_open += len(more)
        if more:
            return [Searching(index, sum(len(beam.tokens) for beam in search.beams), 0)]
        events = self._answer(index, search, root, sequence.last_token_s)
        if self.is_over:
            events.append(Done(self._usage, self.seed))
        return events

    def _following(self, scores: Scores | None) -> list[TokenScore]:
        """What may follow a beam, likeliest first."""
        if scores is None:
            raise RuntimeError("a beam was not scored")
        found = [
            Alternative(token, self._vocab.piece(token), value)
            for token, value in zip(scores.ids[0].tolist(), scores.values[0].tolist(), strict=True)
        ]
        top = tuple(found[: self.request.logprobs or 0])
        return [
            TokenScore(each.token, each.piece, each.logprob, rank, top)
            for rank, each in enumerate(found, 1)
        ]

    def _answer(self, index: int, search: BeamSearch, root: Sequence, now: float) -> list[Event]:
        best = search.best(self.request.n)
        best += best[-1:] * (self.request.n - len(best))
        events: list[Event] = []
        for rank, beam in enumerate(best):
            self._add_usage(completion=len(beam.tokens))
            events += self._told(self._choice(index, rank), beam, root, now)
        return events

    def _told(self, choice: int, beam: Beam, root: Sequence, now: float) -> list[Event]:
        output = Output(())
        for score in beam.scores:
            output.push(score.token, self.text_piece(score.token), score)
        shown = output.flush() or Shown("", (), ())
        scores = shown.scores if self.request.logprobs is not None else None
        cause = beam.cause or "max_tokens"
        if cause == "max_tokens" and len(beam.tokens) != self.request.max_tokens:
            cause = "context"
        stop = beam.tokens[-1] if cause == "stop_token" else None
        read_s = root.last_token_s
        prompt_s = max(0.0, read_s - (root.prompt_started_s or read_s))
        end = Finished(
            choice,
            REASONS[cause],
            cause,
            len(beam.tokens),
            stop=stop,
            prompt_s=prompt_s,
            decode_s=max(0.0, now - read_s),
        )
        return [Delta(choice, shown.text, shown.tokens, scores, end.decode_s), end]
