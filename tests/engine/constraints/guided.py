"""Constraints, their grammars, and what a guide of them allows, for the tests here."""

from collections.abc import Iterable

import numpy as np

from segue.engine.constraints.compiler import Compiler, Grammar, Matcher
from segue.engine.constraints.guide import Guide
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint


def regex(text: str) -> Constraint:
    return Constraint(kind="regex", value=text, param="regex")


def compiled(constraint: Constraint) -> Grammar:
    return Compiler(FakeVocab(), VOCAB_SIZE).compile(constraint)


def is_prefix(grammar: Grammar, tokens: list[int], width: int) -> bool:
    """Whether a fresh guide would have allowed every one of the tokens."""
    guide = Guide(grammar)
    for place, token in enumerate(tokens):
        row = np.zeros(width, np.float32)
        if not guide.apply(row) or row[token] != 0:
            return False
        if guide.accept(token):
            return place == len(tokens) - 1
    return True


def is_whole(grammar: Grammar, text: str) -> bool:
    """Whether the constraint accepts exactly this text."""
    matcher = grammar.matcher.deep_copy()
    tokens = list(text.encode())
    return bool(
        matcher.validate_tokens(tokens) == len(tokens)
        and (not tokens or matcher.consume_tokens(tokens))
        and matcher.is_accepting()
    )


def allowed(matcher: Matcher, among: Iterable[int]) -> frozenset[int]:
    """The tokens among these that may come next. The mask allows them; of a text that is forced only one."""
    found = frozenset(token for token in among if matcher.validate_tokens([token]) == 1)
    bits = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    mask = frozenset(np.flatnonzero(bits).tolist())
    assert mask & frozenset(among) == found or (len(mask) == 1 and mask <= found)
    return found
