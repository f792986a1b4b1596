"""One request in the engine: its sequences, and its events in order."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from segue.bounds import MOST_CONTEXTS
from segue.detokenizer import decode
from segue.engine.constraints.compiler import Grammar
from segue.engine.constraints.guide import Guide
from segue.engine.request.output import Output, Shown
from segue.engine.request.repetition import RepetitionWatch
from segue.engine.request.sequence import (
    KvKey,
    Limits,
    PromptScoring,
    Sequence,
    SequenceKey,
    salt_of,
)
from segue.engine.request.window import Window, window_of
from segue.engine.sampling.sampler import Sampler
from segue.engine.sampling.token_rules import TokenRules
from segue.engine.seam import Mix, Model
from segue.engine.tokens import has_added_bos, single_tokens
from segue.types import (
    Cause,
    CompletionRequest,
    Delta,
    Done,
    Event,
    Finished,
    InfillMethod,
    Progress,
    Prompted,
    Reason,
    Split,
    TokenScore,
    Usage,
)

REASONS: dict[Cause, Reason] = {
    "eos": "stop",
    "stop_text": "stop",
    "stop_token": "stop",
    "max_tokens": "length",
    "context": "length",
    "indent": "length",
    "time": "length",
    "repetition": "length",
    "constraint": "stop",
    "dead_end": "error",
}


@dataclass(frozen=True)
class InfillPrompts:
    """How the prompts of an infill request were made; lists have one entry per prompt."""

    method: InfillMethod | None
    texts: list[str]  # what to echo: the tokens hold more than the caller's prompt
    splits: list[Split]


@dataclass(frozen=True, kw_only=True)
class PreparedRequest:
    """A request in the tokens of the loaded model, and checked against it; lists have one entry per prompt."""

    request: CompletionRequest
    prompts: list[list[int]]
    num_dropped: list[int]  # tokens that did not fit
    infill: InfillPrompts | None  # None: not an infill request
    rules: TokenRules
    seed: int
    grammar: Grammar | None  # the compiled constraint
    adapters: Mix


class Job:
    """One request. With best_of > n, the candidates of a prompt have no events until the best n are known."""

    has_rounds = False  # whether later sequences go on from the KV of earlier ones

    def __init__(self, prepared: PreparedRequest, model: Model) -> None:
        self._more: list[Sequence] = []
        self.request = prepared.request
        self.seed = prepared.seed
        self.rules = prepared.rules
        self._prepared = prepared
        self._vocab = model.vocab
        self._causes = prepared.rules.causes
        self._texts = prepared.rules.texts
        self._shows_special = self.request.show_special
        self._preserved = single_tokens(self.request.preserved, model.vocab)
        self._written = frozenset(self._preserved.values())
        self._limits = model.capabilities
        self._is_ranked = self.request.num_candidates > self.request.n
        # Whether drawn tokens are scored: to report them or to rank candidates by them.
        self.needs_scores = self._is_ranked or self.request.logprobs is not None
        grammar = prepared.grammar
        self.ignored = grammar.ignored if grammar else ()  # of the constraint
        self.sequences: list[Sequence] = []
        for index, prompt in enumerate(prepared.prompts):
            self.sequences.extend(self._candidates(index, prompt))
        self._num_open = len(self.sequences)
        self._held: dict[Sequence, list[Event]] = {}
        self._most_read: dict[int, int] = {}  # per prompt, as its progress events told
        self._usage = Usage(sum(map(len, prepared.prompts)), 0, 0)

    @property
    def is_over(self) -> bool:
        return self._num_open == 0

    @property
    def num_candidates(self) -> int:
        """Candidates per prompt."""
        return self.request.num_candidates

    @property
    def private_salts(self) -> frozenset[str]:
        """Cache salts of prefixes that only the sequences of one prompt can use; they are freed with the request."""
        salts = (sequence.salt for sequence in self.sequences if not self.request.use_cache)
        return frozenset(salt for salt in salts if salt is not None)

    @property
    def scores_stops(self) -> bool:
        """Whether tokens inside a stop string have scores, too."""
        return self.request.score_stops

    def is_useful(self, sequence: Sequence) -> bool:
        """Whether others may go on from what it has computed, once it has ended."""
        if sequence.is_probe:
            return False
        return self.request.use_cache or self.has_rounds or sequence.num_followers > 0

    def take_more(self) -> list[Sequence]:
        """Further sequences to run, chosen by the results of the finished ones."""
        more, self._more = self._more, []
        return more

    def _candidates(self, index: int, prompt: list[int]) -> list[Sequence]:
        request, grammar = self.request, self._prepared.grammar
        wanted = self._num_wanted(index, len(prompt))
        kv, window = self._kv(index), self._window(prompt)
        made: list[Sequence] = []
        for candidate in range(self.num_candidates if wanted else 1):
            sampler = Sampler(
                request.sampling,
                self.seed,
                candidate,
                self._limits.vocab_size,
                self.rules,
                request.post_sampling_probs and request.logprobs is not None,
            )
            sampler.start(prompt)
            made.append(
                Sequence(
                    SequenceKey(request.request_id, index, candidate),
                    prompt,
                    sampler,
                    Output(
                        request.stop,
                        request.sampling.min_tokens,
                        request.min_indent,
                        request.include_stop,
                        self.scores_stops,
                    ),
                    limits=Limits(wanted, request.time_limit_s, self._watch(wanted), window),
                    guide=Guide(grammar) if grammar else None,
                    scoring=PromptScoring(None if candidate else request.prompt_logprobs),
                    kv=kv,
                    leader=made[0] if made else None,
                )
            )
        return made

    def _watch(self, wanted: int) -> RepetitionWatch | None:
        """No pattern is longer than a context, however long the answer may be."""
        how, least = self.request.repetition, self.request.sampling.min_tokens
        if how is None:
            return None
        size = min(how.max_size, self._limits.context_length)
        return RepetitionWatch(msgspec.structs.replace(how, max_size=size), least, wanted)

    def _num_wanted(self, index: int, num_prompt: int) -> int:
        context, shift = self._limits.context_length, self.request.shift
        room = context - num_prompt if shift is None else MOST_CONTEXTS * context
        bounds = (self.request.max_tokens, None if shift is None else shift.most_tokens)
        return min([room, *(each for each in bounds if each is not None)])

    def _window(self, prompt: list[int]) -> Window | None:
        how = self.request.shift
        context = self._limits.context_length
        return None if how is None else window_of(how, prompt, self._vocab, context)

    def _kv(self, index: int) -> KvKey:
        """Of a prompt's sequences. Without the cache only they share what they compute."""
        request, adapters = self.request, self._prepared.adapters
        if request.use_cache:
            return KvKey(salt_of(adapters, request.cache_salt), adapters)
        shares = self.has_rounds or self.num_candidates > 1
        return KvKey(f"own {request.request_id} {index}" if shares else None, adapters)

    # --- events ----------------------------------------------------------------------------------

    def read(self, leader: Sequence, now: float) -> list[Event]:
        """Progress of a prompt. The first call also reports how much was cached.

        It never goes back: what is read again after a preemption is not told again.
        """
        if not self.request.report_progress or leader.leader is not None:
            return []
        index, num_read = leader.prompt_index, min(leader.computed, leader.num_prompt)
        steps = [] if index in self._most_read else [(leader.num_cached, 0.0)]
        if num_read > self._most_read.get(index, 0):
            self._most_read[index] = num_read
            steps.append((num_read, now - (leader.prompt_started_s or now)))
        about = (leader.num_prompt, leader.num_cached)
        return [Progress(index, num, *about, seconds) for num, seconds in steps]

    def prompted(self, leader: Sequence, now: float) -> list[Event]:
        """Events of a prompt that is computed. With max_tokens 0 nothing else follows."""
        index, tokens = leader.prompt_index, leader.tokens[: leader.num_prompt]
        infill, scores = self._prepared.infill, leader.scores
        self._add_usage(cached=leader.num_cached)
        shows_text = self.request.echo or self.request.logprobs is not None
        return [
            *self.read(leader, now),
            Prompted(
                index,
                tuple(tokens),
                leader.num_cached,
                self._prompt_text(index, tokens) if shows_text else None,
                None if scores is None else scores.of_prompt(tokens, self._vocab.piece),
                num_dropped=self._prepared.num_dropped[index],
                prompt_s=now - (leader.prompt_started_s or now),
                infill=infill.method if infill else None,
                split=infill.splits[index] if infill else None,
                ignored=self.ignored,
                preserved=tuple(self._preserved.items()),
            ),
        ]

    def accept(self, sequence: Sequence, token: int, score: TokenScore | None, now: float) -> None:
        """A token that was drawn for the sequence. `score`: where `needs_scores`."""
        cause = self._causes.get(token)
        is_usual = cause is None and not self._shows_special and token not in self._written
        piece = self._texts[token] if is_usual else self.text_piece(token)
        sequence.accept(token, piece, score, cause, now)

    def progressed(self, sequence: Sequence) -> list[Event]:
        shown = sequence.output.take()
        if shown is None:
            return []
        events = [self._delta(sequence, shown)]
        return self._emit(sequence, events) if self._is_ranked else events

    def finished(self, sequence: Sequence) -> list[Event]:
        """Events of a sequence that ended; with the last one the request ends."""
        self._num_open -= 1
        self._add_usage(completion=sequence.num_output)
        # Under a constraint only a cut leaves half a character, and what matches ends before it.
        rest = sequence.flush(keeps_half=self.request.constraint is None)
        cause = sequence.cause
        if cause is None:
            raise RuntimeError("a sequence is finished only once it has a cause to end")
        if cause == "max_tokens" and self._ran_out_of_context(sequence):
            cause = "context"
        end = Finished(
            self._choice(sequence.prompt_index, sequence.candidate),
            REASONS[cause],
            cause,
            sequence.num_output,
            stop=sequence.stop,
            prompt_s=sequence.prompt_s,
            decode_s=sequence.decode_s,
            num_dropped=sequence.num_dropped - sequence.num_dropped_in_vain,
        )
        told: list[Event] = [end] if rest is None else [self._delta(sequence, rest), end]
        events = self._emit(sequence, told)
        if self.request.max_tokens == 0:
            others = range(1, self.request.n)
            events += [Finished(end.choice + i, end.reason, end.cause, 0) for i in others]
        if self._is_ranked:
            events += self._ranked(sequence.prompt_index)
        if self.is_over:
            events.append(Done(self._usage, self.seed))
        return events

    def _ran_out_of_context(self, sequence: Sequence) -> bool:
        wanted = self.request.max_tokens
        return wanted is None or sequence.num_output < wanted

    def _delta(self, sequence: Sequence, shown: Shown) -> Event:
        scores = shown.scores if self.request.logprobs is not None else None
        choice = self._choice(sequence.prompt_index, sequence.candidate)
        return Delta(choice, shown.text, shown.tokens, scores, sequence.decode_s)

    def _emit(self, sequence: Sequence, events: list[Event]) -> list[Event]:
        if not self._is_ranked:
            return events
        self._held.setdefault(sequence, []).extend(events)
        return []

    def _ranked(self, prompt_index: int) -> list[Event]:
        """Once every candidate of a prompt ended: the events of the n with the highest mean log-probability."""
        mates = [s for s in self.sequences if s.prompt_index == prompt_index]
        if any(s.cause is None for s in mates):
            return []
        best = sorted(mates, key=lambda s: (-s.sum_logprob / max(s.num_output, 1), s.candidate))
        events: list[Event] = []
        for rank, sequence in enumerate(best[: self.request.n]):
            choice = self._choice(prompt_index, rank)
            events += [_renumbered(event, choice) for event in self._held[sequence]]
        return events

    def _choice(self, prompt_index: int, candidate: int) -> int:
        return prompt_index * self.request.n + candidate

    def _add_usage(self, completion: int = 0, cached: int = 0) -> None:
        u = self._usage
        self._usage = Usage(
            u.prompt_tokens, u.completion_tokens + completion, u.cached_tokens + cached
        )

    def _prompt_text(self, prompt_index: int, tokens: list[int]) -> str:
        """The prompt as the caller wrote it: without the BOS and the spaces that the tokenizer adds."""
        if self._prepared.infill is not None:
            return self._prepared.infill.texts[prompt_index]
        prompt = self.request.prompts[prompt_index]
        if not self._prepared.num_dropped[prompt_index]:
            parts = (
                part if isinstance(part, str) else self._decoded(part) for part in prompt.parts
            )
            return "".join(parts)
        return self._decoded(tokens[has_added_bos(prompt, tokens, self._vocab) :])

    def _decoded(self, tokens: Iterable[int]) -> str:
        return decode([self._vocab.piece(token) for token in tokens])

    def text_piece(self, token: int) -> bytes:
        """What a drawn token adds to the text. End and control tokens add nothing, unless the request asks for them."""
        if token in self._written:
            return self._vocab.piece(token)
        if token in self._causes and not self.request.include_stop:
            return b""
        return self._vocab.piece(token) if self._shows_special else self._texts[token]


def _renumbered(event: Event, choice: int) -> Event:
    match event:
        case Delta() | Finished():
            return msgspec.structs.replace(event, choice=choice)
    return event
