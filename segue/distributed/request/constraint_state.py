"""A constraint beside an engine that enforces it."""

import time

from segue.engine.constraints.compiler import Grammar

_SLOW_S = (
    0.02  # of the processor, to read one token: the next ones may take seconds, of the event loop
)


class ConstraintState:
    """Follows a text that another engine constrains: no masks, only whether the text is complete.

    It gives up where that takes long: then it knows nothing, and vLLM alone says how the text ends.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher.deep_copy()
        self.has_given_up = grammar.is_slow

    def accept(self, token: int) -> bool:
        """True if the text is complete and nothing may follow."""
        if self.has_given_up:
            return False
        began_s = time.thread_time()
        self._matcher.consume_token(token)
        self.has_given_up = time.thread_time() - began_s > _SLOW_S
        return bool(self._matcher.is_stopped() and not self._matcher.is_error())

    def allows(self, token: int) -> bool:
        return not self.has_given_up and bool(self._matcher.validate_tokens([token]))

    @property
    def is_whole(self) -> bool:
        return not self.has_given_up and bool(self._matcher.is_accepting())
