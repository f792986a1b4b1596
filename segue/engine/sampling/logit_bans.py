"""Logit biases and bans: applied to a row of logits before all sampling steps, unless biases are one of the steps."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from segue.engine.sampling.candidates import Candidates, Index
from segue.engine.sampling.token_rules import TokenRules, biases
from segue.engine.seam import Changes, Logits
from segue.types import Sampling


class LogitBans:
    def __init__(self, sampling: Sampling, rules: TokenRules, has_bias_step: bool) -> None:
        """`has_bias_step`: a sampling step adds the biases. Those that ban are applied here all the same."""
        bias = biases(sampling, rules)
        later = {token: each for token, each in bias.items() if has_bias_step and each > -np.inf}
        self.biases = as_changes(later)  # for that step
        bias = {token: each for token, each in bias.items() if token not in later}
        bias |= {word[0]: -np.inf for word in rules.bad_words if len(word) == 1}
        self._bias_ids = np.fromiter(bias.keys(), np.intp, len(bias))
        self._bias = np.fromiter(bias.values(), np.float32, len(bias))
        self._allowed = rules.allowed
        self._phrases = _by_last_but_one(rules.bad_words)
        self._num_recent = max(map(len, rules.bad_words), default=1) - 1
        self._recent: list[int] = []  # the last tokens, which may begin a banned phrase
        ends = rules.ends | rules.stops
        self._early = _array(ends)
        # The first token that is no end.
        self._other = next(token for token in range(len(ends) + 1) if token not in ends)
        self._always = _array(rules.ends - rules.stops if rules.ignores_ends else ())
        self._min_tokens = sampling.min_tokens
        self._changes: dict[bool, Changes | None] = {}  # before min_tokens, and after

    @property
    def is_lenient(self) -> bool:
        """Whether it bans no tokens other than end tokens."""
        has_biases = bool(self._bias_ids.size) or self.biases is not None
        return not (has_biases or self._phrases) and self._allowed is None

    def changes(self, position: int) -> Changes | None:
        """What `admitted` does to a row at this position, but for phrases (`completing`); None: nothing.

        One difference: end tokens are banned even if no other token is left. Then the runner has no token to draw, and
        the sampler draws in its place.
        """
        is_early = position < self._min_tokens
        if is_early not in self._changes:
            self._changes[is_early] = self._made(self._early if is_early else self._always)
        return self._changes[is_early]

    def _made(self, ends: Index) -> Changes | None:
        is_kept = ~np.isin(self._bias_ids, ends)
        ids = np.concatenate([self._bias_ids[is_kept], ends]).astype(np.int64)
        banned = np.full(ends.size, -np.inf, np.float32)
        if not ids.size and self._allowed is None:
            return None
        return Changes(ids, np.concatenate([self._bias[is_kept], banned]), self._allowed)

    @property
    def has_phrases(self) -> bool:
        """Whether bans depend on the tokens before, which `push` tells."""
        return bool(self._phrases)

    def push(self, token: int) -> None:
        self._recent.append(token)
        del self._recent[: -self._num_recent]

    def completing(self) -> list[int]:
        """Tokens that would complete a banned phrase."""
        recent = self._recent
        begun = self._phrases.get(recent[-1], ()) if recent else ()
        return [last for *first, last in begun if recent[-len(first) :] == first]

    def add_biases(self, row: Logits) -> None:
        """The sampling step."""
        if self.biases is not None:
            row[self.biases.ids] += self.biases.added

    def admitted(self, row: Logits, position: int) -> Candidates:
        """The tokens that may be drawn at this position of the output."""
        if self._bias_ids.size:
            row[self._bias_ids] += self._bias
        if self._phrases:
            row[self.completing()] = -np.inf
        if self._allowed is not None:
            logits = row[self._allowed]
            row.fill(-np.inf)
            row[self._allowed] = logits
        self._forbid_ends(row, self._early if position < self._min_tokens else self._always)
        return Candidates(row, self._allowed)

    def _forbid_ends(self, row: Logits, ends: Index) -> None:
        """Ban the end tokens, unless no other token is allowed: after a complete constraint only the end is."""
        if ends.size:
            other = self._other
            if other < row.size and row[other] > -np.inf:  # mostly true: no need to read the rest
                row[ends] = -np.inf
                return
            logits = row[ends]
            row[ends] = -np.inf
            if row.max() == -np.inf:
                row[ends] = logits


def as_changes(added: Mapping[int, float]) -> Changes | None:
    """What is added to the logits of tokens; None: nothing."""
    if not added:
        return None
    ids = np.fromiter(added.keys(), np.int64, len(added))
    return Changes(ids, np.fromiter(added.values(), np.float32, len(added)))


def _array(tokens: Collection[int]) -> Index:
    return np.array(sorted(tokens), np.intp)


def _by_last_but_one(words: Iterable[tuple[int, ...]]) -> dict[int, list[tuple[int, ...]]]:
    """Words of several tokens, by the one before the last: few of a thousand are looked at for a token."""
    found: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for word in words:
        if len(word) > 1:
            found[word[-2]].append(word)
    return dict(found)
