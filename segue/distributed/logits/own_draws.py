"""Tokens that Segue's own sampler draws from vLLM's logits: for requests with steps that vLLM does not have.

Pure: rows in, tokens out. draw_processors.py gives the rows and makes the drawn token the only one left in its row, so
that vLLM can take no other. A row is of no use where vLLM drops the token drawn from it (a part of a prompt, for
example); so a draw counts only once the next row follows it.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from segue.engine.sampling.sampler import Sampler, Snapshot, plan
from segue.engine.sampling.token_rules import TokenRules, biases
from segue.engine.seam import Logits
from segue.errors import InvalidField
from segue.types import Sampling, Step

# Of draws that left the batch and may come back: preempted ones, which nothing tells from ended ones. And of their
# prompts' tokens, some 36 bytes each.
_MOST_KEPT = 1024
_MOST_TOKENS = 1 << 22
_NEEDS_HISTORY: frozenset[Step] = frozenset({"penalties", "dry"})


class Draw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the tokens of one candidate are drawn. Without bans and biases, which are vLLM's, but those of a step."""

    key: str  # of the candidate
    sampling: Sampling = Sampling()
    seed: int = 0
    candidate: int = 0
    num_prompt: int = 0
    prompt: tuple[int, ...] = ()  # only where a step looks at it
    ends: tuple[int, ...] = ()
    breakers: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...] = ()  # of DRY
    branch: int | None = None  # see engine/sampling/branches.py
    openings: tuple[int, ...] | None = None  # tokens it may begin with
    forced: tuple[int, ...] = ()  # the tokens themselves, in order

    def packed(self) -> bytes:
        return msgspec.msgpack.encode(self)


def unpack(packed: bytes) -> Draw:
    return msgspec.msgpack.decode(packed, type=Draw)


def adds_biases(sampling: Sampling) -> bool:
    """Whether biases are added after another step, and so not by vLLM, which adds them before all."""
    return "logit_bias" in plan(sampling)[1:]


def steps_only(sampling: Sampling, rules: TokenRules) -> Sampling:
    """The sampling without bans and ends, and without biases unless they are added here."""
    added = biases(sampling, rules) if adds_biases(sampling) else {}
    return msgspec.structs.replace(
        sampling,
        logit_bias={token: bias for token, bias in added.items() if bias > -np.inf},
        text_bias=(),
        allowed_token_ids=None,
        bad_words=(),
        ignore_eos=False,
        min_tokens=0,
        stop_token_ids=(),
    )


def needs_history(sampling: Sampling) -> bool:
    return not _NEEDS_HISTORY.isdisjoint(plan(sampling))


class _Candidate:
    def __init__(self, draw: Draw, vocab_size: int) -> None:
        breakers = {token: frozenset(tails) for token, tails in draw.breakers}
        rules = TokenRules(ends=frozenset(draw.ends), breakers=breakers)
        self.num_tokens = len(draw.prompt)
        self._forced = draw.forced
        self._sampler = Sampler(draw.sampling, draw.seed, draw.candidate, vocab_size, rules)
        self._sampler.branch = draw.branch
        if draw.openings is not None:
            self._sampler.openings = np.array(draw.openings, np.intp)
        self._sampler.start(draw.prompt)
        self._num_drawn = 0
        self._last: tuple[int, Snapshot] | None = None  # drawn, but nothing follows it yet

    def token(self, row: Logits, position: int) -> int | None:
        """The token at this position of the output. None: it was drawn before, or no token may be drawn."""
        if position < self._num_drawn:
            return None
        self._settle(position)
        if position < len(self._forced):
            return self._forced[position]
        before = self._sampler.snapshot()
        try:
            token = self._sampler.sample(row, position)
        except InvalidField:  # every token is banned: vLLM ends such a request
            return None
        self._last = token, before
        return token

    def _settle(self, position: int) -> None:
        """Take the last draw as it is if this position follows it, else take it back."""
        if self._last is None:
            return
        (token, before), self._last = self._last, None
        if position > self._num_drawn:
            self._sampler.push(token)
            self._num_drawn += 1
        else:
            self._sampler.restore(before)


class OwnDraws:
    """The candidates that are drawn here, those that left the batch included: they may come back."""

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._candidates: OrderedDict[str, _Candidate] = OrderedDict()  # the last used at the end
        self._num_tokens = 0

    def tokens(self, rows: Iterable[tuple[int, Draw, int]], logits: Logits) -> Mapping[int, int]:
        """For each (place, how, position of its output): the token drawn from that place's row of `logits`.

        Writes to `logits`. A place whose row is left as it is, is left out.
        """
        found: dict[int, int] = {}
        used: set[str] = set()
        for row, (place, draw, position) in zip(logits, rows, strict=True):
            if position < 0:
                continue
            used.add(draw.key)
            token = self._candidate(draw).token(row, position)
            if token is not None:
                found[place] = token
        self._forget(len(used))
        return found

    def _candidate(self, draw: Draw) -> _Candidate:
        candidate = self._candidates.get(draw.key)
        if candidate is None:
            candidate = self._candidates[draw.key] = _Candidate(draw, self._vocab_size)
            self._num_tokens += candidate.num_tokens
        self._candidates.move_to_end(draw.key)
        return candidate

    def _forget(self, num_used: int) -> None:
        """Forget those that left longest ago, if they are too many. The last ones are in the batch, and stay."""
        while (num_left := len(self._candidates) - num_used) > 0:
            if num_left <= _MOST_KEPT and self._num_tokens <= _MOST_TOKENS:
                return
            _, oldest = self._candidates.popitem(last=False)
            self._num_tokens -= oldest.num_tokens
