"""One random constraint at a time, in both directions: nothing forbidden is drawn, nothing allowed is missing."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from random import Random

import msgspec
import numpy as np

from segue.bench.exactness import grammars, regexes, schemas
from segue.bench.exactness.grammars import Recogniser
from segue.engine.constraints import gbnf
from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.guide import Guide
from segue.engine.constraints.tokens import TokenSets
from segue.errors import InvalidField
from segue.runners.fake import EOS, VOCAB_SIZE
from segue.types import Constraint

MAX_TOKENS = 200
NUM_VALUES = 40
NUM_TEXTS = 4
NUM_SPELLINGS = 120
MAX_RECOGNISED = 20  # characters of a drawn text: recognising by the book takes their cube


@dataclass
class Findings:
    compiled: int = 0
    refused: int = 0
    judged: int = 0
    drawn: int = 0
    wrong: list[str] = field(default_factory=list)


def try_schema(random: Random, compiler: Compiler, found: Findings) -> None:
    import jsonschema  # a development tool, and the other trials do without

    schema = schemas.schema(random)
    text = msgspec.json.encode(schema).decode()
    try:
        grammar = compiler.compile(Constraint(kind="json_schema", value=text, whitespace=""))
    except InvalidField:
        found.refused += 1
        return
    found.compiled += 1
    # In Python's patterns a $ also matches before a line break at the end.
    validator = jsonschema.Draft202012Validator(json.loads(text.replace("$", r"\\Z")))
    for _ in range(NUM_VALUES):
        value = schemas.value(random)
        is_valid = validator.is_valid(value)
        texts = islice(schemas.spellings(value), NUM_SPELLINGS)
        found.judged += 1
        if any(is_whole(grammar, spelled) for spelled in texts) != is_valid:
            found.wrong.append(f"{text}: {value!r} is {'' if is_valid else 'not '}valid")
    # The validator reads doubles, which may lie beyond a bound that the longer number in the text keeps to.
    is_compared = any(word in text for word in ("imum", "multipleOf", "not", "oneOf", "if"))
    for _ in range(NUM_TEXTS):
        drawn = draw(random, grammar)
        if drawn is None or (is_compared and re.search(rb"[0-9]{14}", drawn)):
            continue
        found.drawn += 1
        with suppress(OverflowError):  # the validator has no numbers beyond the range of a double
            if not validator.is_valid(json.loads(drawn)):
                found.wrong.append(f"{text}: drew {drawn!r}")


def try_regex(random: Random, compiler: Compiler, found: Findings) -> None:
    """One regular expression as a constraint, and as the pattern of a string, which may match anywhere."""
    source = regexes.regex(random)
    whole, anywhere = re.compile(source, re.ASCII), re.compile(source, re.ASCII)
    pattern = msgspec.json.encode({"type": "string", "pattern": source}).decode()
    try:
        alone = compiler.compile(Constraint(kind="regex", value=source))
        within = compiler.compile(Constraint(kind="json_schema", value=pattern))
    except InvalidField:
        found.refused += 1
        return
    found.compiled += 1
    for text in regexes.TEXTS:
        found.judged += 2
        if is_whole(alone, text) != bool(whole.fullmatch(text)):
            found.wrong.append(f"/{source}/: {text!r}")
        if is_whole(within, f'"{text}"') != bool(anywhere.search(text)):
            found.wrong.append(f"pattern {source}: {text!r}")


def try_grammar(random: Random, compiler: Compiler, found: Findings) -> None:
    source = grammars.grammar(random)
    rules = gbnf.parse(source, TokenSets(None))
    expected = {text for text in grammars.TEXTS if Recogniser(rules, text).matches}
    found.judged += len(grammars.TEXTS)
    try:
        grammar = compiler.compile(Constraint(kind="gbnf", value=source))
    except InvalidField as error:
        found.refused += 1
        if expected:
            found.wrong.append(f"{source}: refused ({error.message}), but {expected} match")
        return
    found.compiled += 1
    for text in grammars.TEXTS:
        if is_whole(grammar, text) != (text in expected):
            found.wrong.append(f"{source}: {text!r} does {'' if text in expected else 'not '}match")
    for _ in range(NUM_TEXTS):
        drawn = draw(random, grammar, MAX_RECOGNISED)
        if drawn is None:
            continue
        found.drawn += 1
        if not Recogniser(rules, drawn.decode()).matches:
            found.wrong.append(f"{source}: drew {drawn!r}")


def is_whole(grammar: Grammar, text: str) -> bool:
    matcher = grammar.matcher.deep_copy()
    tokens = list(text.encode())
    return bool(
        matcher.validate_tokens(tokens) == len(tokens)
        and matcher.consume_tokens(tokens)
        and matcher.is_accepting()
    )


def draw(random: Random, grammar: Grammar, most: int = MAX_TOKENS) -> bytes | None:
    """A random text that prefers to end; None if it does not end soon."""
    guide = Guide(grammar)
    drawn: list[int] = []
    for _ in range(most):
        row = np.zeros(VOCAB_SIZE, np.float32)
        if not guide.apply(row):
            raise AssertionError(f"a dead end after {bytes(drawn)!r}")
        allowed = np.flatnonzero(row == 0).tolist()
        closing = [t for t in allowed if t == EOS or (t < 256 and chr(t) in '"]}')]
        plain = [t for t in allowed if t < 128]
        token = random.choice(closing if closing and random.random() < 0.4 else plain or allowed)
        if token == EOS:
            return bytes(drawn)
        drawn.append(token)
        if guide.accept(token):
            return bytes(drawn)
    return None
