"""A matcher of a lazy grammar whose triggers are words and tokens: free text first, then llguidance's own matcher.

It does what llguidance's do where these are used, so that a guide needs not know which it has.
"""

from collections.abc import Sequence

import llguidance

from segue.engine.constraints.lazy.fitting import Fitting, LimitMet
from segue.engine.constraints.lazy.word_watch import BEGIN, Free, WordWatch
from segue.engine.constraints.vocabulary import Vocabulary


class WordMatcher:
    def __init__(self, watch: WordWatch, fitting: Fitting, vocabulary: Vocabulary) -> None:
        """`fitting`: of the grammar that holds after a trigger."""
        self._watch = watch
        self._fitting = fitting
        self._vocabulary = vocabulary
        self._at: Free | None = BEGIN  # None: the answer has ended
        self._triggered: llguidance.LLMatcher | None = None
        self._error = ""

    def deep_copy(self) -> "WordMatcher":
        found = WordMatcher(self._watch, self._fitting, self._vocabulary)
        found._at, found._error = self._at, self._error
        if self._triggered is not None:
            found._triggered = self._triggered.deep_copy()
        return found

    # --- what may come ------------------------------------------------------------------------------

    def compute_bitmask(self) -> bytes:
        if self._triggered is not None:
            return bytes(self._triggered.compute_bitmask())
        if self._at is not None and not self._error:
            try:
                return self._watch.mask(self._at, self._fitting)
            except LimitMet as met:
                self._error = str(met)
        return bytes(-(-self._vocabulary.size // 32) * 4)

    def compute_ff_tokens(self) -> Sequence[int]:
        return [] if self._triggered is None else self._triggered.compute_ff_tokens()

    def validate_tokens(self, tokens: Sequence[int]) -> int:
        """How many of them may come."""
        trial = self.deep_copy()
        for place, token in enumerate(tokens):
            if trial._triggered is not None:
                return place + int(trial._triggered.validate_tokens(list(tokens[place:])))
            if not trial.consume_token(token):
                return place
        return len(tokens)

    # --- what has come ------------------------------------------------------------------------------

    def consume_token(self, token: int) -> bool:
        for matcher, each in self.to_read(token):
            matcher.consume_token(each)
        return not self.is_error()

    def consume_tokens(self, tokens: Sequence[int]) -> bool:
        return all(map(self.consume_token, tokens))

    def to_read(self, token: int) -> Sequence[tuple[llguidance.LLMatcher, int]]:
        """Take this token. What llguidance has to read of it is left to the caller: which matcher reads which token."""
        if self._triggered is not None:
            return [(self._triggered, token)]
        if self._at is None or self._error:
            self._error = self._error or "the text has ended"
        elif token in self._vocabulary.ends:
            if self._at.half:
                self._error = "the text ends within a character"
            self._at = None
        else:
            return self._moved(self._watch.after(self._at, token))
        return []

    def _moved(self, to: Free | bytes | None) -> Sequence[tuple[llguidance.LLMatcher, int]]:
        if isinstance(to, bytes):
            triggered = self._triggered = self._fitting.begun()
            return [(triggered, each) for each in self._fitting.spelled(to)]
        if to is None:
            self._error = "the token cannot come in free text"
        else:
            self._at = to
        return []

    def is_accepting(self) -> bool:
        if self._triggered is not None:
            return bool(self._triggered.is_accepting())
        return not self._error and (self._at is None or not self._at.half)

    def is_stopped(self) -> bool:
        if self._triggered is not None:
            return bool(self._triggered.is_stopped())
        return bool(self._error) or self._at is None

    def is_error(self) -> bool:
        return bool(self._error) or (self._triggered is not None and self._triggered.is_error())

    def get_error(self) -> str:
        return self._error or ("" if self._triggered is None else str(self._triggered.get_error()))
