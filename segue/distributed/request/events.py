"""Converts the outputs of vLLM, one after another, to the events of Segue's engine.

The job, its sequences and their texts are the engine's own: only the tokens and their scores come from vLLM.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from segue.distributed.request.constraint_state import ConstraintState
from segue.distributed.request.scores import (
    Entry,
    FlatLogprobs,
    drawn_score,
    following_scores,
    prompt_scores,
)
from segue.engine.constraints.compiler import Grammar
from segue.engine.request.job import Job
from segue.engine.request.sequence import Sequence as Candidate
from segue.engine.seam import Vocab
from segue.errors import EngineFault
from segue.types import LOWEST_LOGPROB, Cause, Event


class Completion(Protocol):
    """The new part of an output."""

    @property
    def token_ids(self) -> Sequence[int]: ...

    @property
    def logprobs(self) -> Sequence[Mapping[int, Entry]] | None: ...

    @property
    def finish_reason(self) -> str | None: ...


class Times(Protocol):
    @property
    def scheduled_ts(self) -> float: ...


class Output(Protocol):
    @property
    def prompt_logprobs(self) -> FlatLogprobs | None: ...

    @property
    def num_cached_tokens(self) -> int | None: ...

    @property
    def metrics(self) -> Times | None: ...

    @property
    def outputs(self) -> Sequence[Completion]: ...

    @property
    def finished(self) -> bool: ...


# Alternatives among which watched tokens are looked for; others are less likely than these.
WATCHED_TOP = 64

# vLLM's finish reason → cause, where no token or stop string explains the end.
_CAUSES: dict[str, Cause] = {"length": "max_tokens", "stop": "eos"}
# What ends a text first, if its constraint ends it at the same token; other causes come after that.
_BEFORE_CONSTRAINT: frozenset[Cause | None] = frozenset(
    {"eos", "stop_token", "stop_text", "indent"}
)
_REFUSED = "error"  # among others where a token was drawn that the constraint forbids


class RequestEvents:
    def __init__(self, job: Job, vocab: Vocab, grammar: Grammar | None) -> None:
        self._job = job
        self._vocab = vocab
        self._constraints = {
            sequence: ConstraintState(grammar) for sequence in job.sequences if grammar is not None
        }

    def take(self, candidate: Candidate, output: Output, now: float) -> list[Event]:
        """The events of one output. Sets the candidate's cause if the candidate ended."""
        completion = output.outputs[0]
        self._check_end(candidate, completion.finish_reason)
        if candidate.is_probe:
            return self._probed(candidate, completion, now)
        if candidate.num_next:
            return self._beam(candidate, output, now)
        events: list[Event] = []
        if not candidate.has_read_prompt:
            events += self._prompted(candidate, output, now)
        if candidate.max_tokens == 0:
            candidate.cause, candidate.last_token_s = "max_tokens", now
        else:
            events += self._drawn(candidate, completion, now)
        if candidate.cause is None and completion.finish_reason is not None:
            candidate.cause = _CAUSES.get(completion.finish_reason)
            if candidate.cause is None:
                raise _ended(completion.finish_reason)
        if candidate.cause is not None:
            self._set_cause_at_dead_end(candidate)
            events += self._job.finished(candidate)
        return events

    def _check_end(self, candidate: Candidate, reason: str | None) -> None:
        """Raise if vLLM gave the request up ("abort", "error"): then the output may lack tokens, scores, the prompt."""
        if reason is None or reason in _CAUSES:
            return
        if reason != _REFUSED or candidate not in self._constraints:
            raise _ended(reason)

    def _probed(self, probe: Candidate, completion: Completion, now: float) -> list[Event]:
        """Record the scores of tokens that were given. They come as drawn tokens."""
        scores = [row[token].logprob for token, row in _scored(completion)]
        known = probe.chances.pop() if probe.chances else []
        probe.chances.append([*known, *(max(score, LOWEST_LOGPROB) for score in scores)])
        if completion.finish_reason is None:
            return []
        probe.cause, probe.last_token_s = "max_tokens", now
        return self._job.finished(probe)

    def _beam(self, beam: Candidate, output: Output, now: float) -> list[Event]:
        """Record what may follow a beam. vLLM draws one token for that, which is dropped."""
        events = self._prompted(beam, output, now)
        [(_, entries)] = _scored(output.outputs[0])
        beam.following = following_scores(entries, beam.num_next)
        beam.cause, beam.last_token_s = "max_tokens", now
        return [*events, *self._job.finished(beam)]

    def _prompted(self, candidate: Candidate, output: Output, now: float) -> list[Event]:
        candidate.has_read_prompt = True
        candidate.computed = candidate.num_prompt
        candidate.num_cached = output.num_cached_tokens or 0
        scheduled_s = output.metrics.scheduled_ts if output.metrics is not None else 0.0
        candidate.prompt_started_s = scheduled_s or now
        if candidate.leader is not None:
            return []
        if candidate.num_top is not None:
            if output.prompt_logprobs is None:
                raise EngineFault("vLLM did not score the prompt")
            candidate.scores = prompt_scores(output.prompt_logprobs, candidate.num_prompt)
        return self._job.prompted(candidate, now)

    def _drawn(self, candidate: Candidate, completion: Completion, now: float) -> list[Event]:
        job, events = self._job, list[Event]()
        scored = _scored(completion) if job.needs_scores else []
        for index, token in enumerate(completion.token_ids):
            if completion.finish_reason == _REFUSED and self._is_refused(candidate, token, now):
                break
            score = None
            if job.needs_scores:
                entries = scored[index][1]
                num_top, asked = job.request.num_top, job.request.logprob_token_ids
                score = drawn_score(token, entries, num_top, self._vocab, asked)
                _watch(candidate, entries)
            job.accept(candidate, token, score, now)
            self._follow(candidate, token)
            if candidate.cause is not None:
                break
            events += job.progressed(candidate)
        return events

    def _follow(self, candidate: Candidate, token: int) -> None:
        """Advance the constraint. If only the end may follow, end the text before vLLM draws the end token."""
        constraint = self._constraints.get(candidate)
        if constraint is None or candidate.cause in _BEFORE_CONSTRAINT:
            return
        if constraint.accept(token):
            candidate.cause = "constraint"

    def _is_refused(self, candidate: Candidate, token: int, now: float) -> bool:
        """Whether vLLM drew what the constraint forbids, as bans left nothing else: then it is no part of the text."""
        constraint = self._constraints.get(candidate)
        if constraint is None or constraint.allows(token):
            return False
        candidate.cause = "constraint" if constraint.is_whole else "dead_end"
        candidate.last_token_s = now
        return True

    def _set_cause_at_dead_end(self, candidate: Candidate) -> None:
        """Set the cause where vLLM ended the text because its constraint allows no token, though it is not met."""
        constraint = self._constraints.get(candidate)
        if constraint is None or constraint.has_given_up:
            return
        if candidate.cause == "eos" and not constraint.is_whole:
            candidate.cause = "dead_end"


def _ended(reason: str) -> EngineFault:
    return EngineFault(f"vLLM ended the request: {reason}")


def _scored(completion: Completion) -> list[tuple[int, Mapping[int, Entry]]]:
    if completion.logprobs is None:
        raise EngineFault("vLLM did not score a token")
    return list(zip(completion.token_ids, completion.logprobs, strict=True))


def _watch(candidate: Candidate, entries: Mapping[int, Entry]) -> None:
    """Record what is known of the watched tokens: the score, or a bound on it."""
    if candidate.watched:
        found = (entries.get(token) for token in candidate.watched)
        candidate.chances.append([None if entry is None else entry.logprob for entry in found])
        listed = (e.logprob for e in entries.values() if e.rank and e.rank <= WATCHED_TOP)
        candidate.bounds.append(min(listed))
