"""A constraint beside an engine that enforces it."""

from segue.engine.constraints.compiler import Grammar


class Witness:
    """Follows a text that another engine constrains: no masks, only whether the text is complete."""

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher.deep_copy()

    def accept(self, token: int) -> bool:
        """True if the text is complete and nothing may follow."""
        self._matcher.consume_token(token)
        return bool(self._matcher.is_stopped() and not self._matcher.is_error())

    def allows(self, token: int) -> bool:
        return bool(self._matcher.validate_tokens([token]))

    @property
    def is_whole(self) -> bool:
        return bool(self._matcher.is_accepting())
