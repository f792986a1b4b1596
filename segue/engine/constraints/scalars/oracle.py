"""Asks the compiler about terminals: does any text match, does this text match."""

from functools import cache, lru_cache

import llguidance
import msgspec

from segue.engine.constraints.grammar import GrammarError

_LIMITS = llguidance.LLParserLimits(
    initial_lexer_fuel=300_000, step_lexer_fuel=50_000, max_lexer_states=5_000, verbose_errors=False
)
_BYTES = 256 // 8  # of a mask: the tokens that are bytes


@cache
def _bytes() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")


def _made(terminal: str) -> llguidance.LLMatcher:
    grammar = {"grammars": [{"lark_grammar": f"start: T\nT: {terminal}"}]}
    text = msgspec.json.encode(grammar).decode()
    matcher = llguidance.LLMatcher(_bytes(), text, log_level=0, limits=_LIMITS)
    if matcher.is_error():
        raise GrammarError("a pattern is too complex")
    return matcher


_matcher = lru_cache(64)(_made)


@lru_cache(4096)
def is_empty(terminal: str) -> bool:
    """Whether no text matches. Raises GrammarError if finding out takes too long."""
    matcher = _matcher(terminal).deep_copy()
    matcher.compute_bitmask()
    if not matcher.is_error():
        return False
    if not matcher.get_error().startswith("NoExtensionBias"):
        raise GrammarError("a pattern is too complex")
    return True


class Prefix:
    """A terminal of which some text was read. It keeps no matcher of its own: one takes 100 KB and more."""

    def __init__(self, start: llguidance.LLMatcher, read: bytes = b"") -> None:
        """`start`: before anything is read. Raises GrammarError if finding out takes too long."""
        self._start, self._read = start, read
        matcher, tokens = start.deep_copy(), list(read)
        fits = matcher.validate_tokens(tokens) == len(tokens) and matcher.consume_tokens(tokens)
        self.is_whole = fits and bool(matcher.is_accepting())
        self.goes_on = fits and _reads_on(matcher)

    @classmethod
    def of(cls, terminal: str) -> "Prefix":
        """With nothing read yet. Its lexer is its own: what others have read must not bring it to its limits."""
        return cls(_made(terminal))

    def after(self, c: str) -> "Prefix":
        """With one more character read."""
        return Prefix(self._start, self._read + c.encode())


def _reads_on(matcher: llguidance.LLMatcher) -> bool:
    """Whether a byte may follow, not only the end."""
    allowed = matcher.compute_bitmask()
    if matcher.is_error():
        if matcher.get_error().startswith("NoExtensionBias"):
            return False
        raise GrammarError("a pattern is too complex")
    return any(allowed[:_BYTES])


@lru_cache(4096)
def matches(terminal: str, text: str) -> bool:
    """Whether the text matches as a whole."""
    matcher = _matcher(terminal).deep_copy()
    tokens = list(text.encode())
    if not tokens:
        return bool(matcher.is_accepting())
    return bool(
        matcher.validate_tokens(tokens) == len(tokens)
        and matcher.consume_tokens(tokens)
        and matcher.is_accepting()
    )
