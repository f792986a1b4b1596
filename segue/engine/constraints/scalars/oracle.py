"""Asks the compiler about terminals: does any text match, does this text match."""

from functools import cache, lru_cache

import llguidance
import msgspec

from segue.engine.constraints.grammar import GrammarError

_LIMITS = llguidance.LLParserLimits(
    initial_lexer_fuel=300_000, step_lexer_fuel=50_000, max_lexer_states=5_000, verbose_errors=False
)


@cache
def _bytes() -> llguidance.LLTokenizer:
    return llguidance.LLTokenizer("byte")


@lru_cache(64)
def _matcher(terminal: str) -> llguidance.LLMatcher:
    grammar = {"grammars": [{"lark_grammar": f"start: T\nT: {terminal}"}]}
    text = msgspec.json.encode(grammar).decode()
    matcher = llguidance.LLMatcher(_bytes(), text, log_level=0, limits=_LIMITS)
    if matcher.is_error():
        raise GrammarError("a pattern is too complex")
    return matcher


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
