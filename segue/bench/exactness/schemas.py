"""Random JSON schemas and values."""

from collections.abc import Callable, Iterator
from itertools import islice, permutations, product
from random import Random
from typing import Any

import msgspec

Json = Any

NAMES = ("a", "b", "ab", "é", 'q"')
TEXTS = ("", "a", "b", "ab", "abc", "ba", "é", "\n", 'a"', "b\\", "aaa")
NUMBERS = (0, 1, -1, 2, 3, 7, 10, 100, -5, 0.5, 1.5, -0.5, 0.25, 2.5, 9007199254740993)
PATTERNS = ("^a", "b$", "^[ab]*$", "a", "^[^c]$", "^(?=[^b]*a)[^b]+$", "^$|c", "\\n", "[^a]{2,3}")
VALUES = (None, True, False, *NUMBERS, *TEXTS)


def value(random: Random, depth: int = 2) -> Json:
    kind = random.random()
    if depth == 0 or kind < 0.5:
        return random.choice(VALUES)
    if kind < 0.7:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    return {name: value(random, depth - 1) for name in random.sample(NAMES, random.randrange(4))}


def schema(random: Random, depth: int = 2) -> Json:
    """A few keywords, most of them about one type."""
    if random.random() < 0.06:
        return random.random() < 0.8
    made: dict[str, Json] = {}
    families = [_NUMBER, _STRING, _ANY] + ([_ARRAY, _OBJECT, _LOGIC] if depth else [])
    for family in random.sample(families, random.choice((1, 1, 2))):
        for keyword in random.sample(list(family), min(len(family), random.choice((1, 2, 3)))):
            made[keyword] = family[keyword](random, depth - 1)
    return made


def _some(random: Random, depth: int, most: int = 3) -> list[Json]:
    return [schema(random, depth) for _ in range(random.randrange(1, most + 1))]


def _types(random: Random, depth: int) -> Json:
    names = ("null", "boolean", "integer", "number", "string", "array", "object")
    return random.choice(names) if random.random() < 0.6 else random.sample(names, 2)


def _count(random: Random, depth: int) -> int:
    return random.randrange(4)


def _number(random: Random, depth: int) -> Json:
    return random.choice(NUMBERS)


def _pattern(random: Random, depth: int) -> str:
    return random.choice(PATTERNS)


def _by_name(random: Random, depth: int) -> Json:
    return {n: schema(random, depth) for n in random.sample(NAMES, random.randrange(1, 4))}


def _names(random: Random, depth: int) -> Json:
    return random.sample(NAMES, random.randrange(1, 3))


def _one(random: Random, depth: int) -> Json:
    return schema(random, depth)


Make = Callable[[Random, int], Json]
_ANY: dict[str, Make] = {
    "type": _types,
    "enum": lambda random, depth: [value(random, 1) for _ in range(random.randrange(1, 5))],
    "const": lambda random, depth: value(random, 1),
}
_NUMBER: dict[str, Make] = {
    "type": lambda random, depth: random.choice(("number", "integer")),
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _number,
    "exclusiveMaximum": _number,
    "multipleOf": lambda random, depth: random.choice((1, 2, 7, 10, 0.5, 0.25)),
}
_STRING: dict[str, Make] = {
    "type": lambda random, depth: "string",
    "minLength": _count,
    "maxLength": _count,
    "pattern": _pattern,
}
_ARRAY: dict[str, Make] = {
    "type": lambda random, depth: "array",
    "items": _one,
    "prefixItems": _some,
    "contains": _one,
    "minContains": _count,
    "maxContains": _count,
    "minItems": _count,
    "maxItems": _count,
    "unevaluatedItems": lambda random, depth: False,
}
_OBJECT: dict[str, Make] = {
    "type": lambda random, depth: "object",
    "properties": _by_name,
    "required": _names,
    "additionalProperties": _one,
    "patternProperties": lambda random, depth: {_pattern(random, 0): schema(random, depth)},
    "propertyNames": lambda random, depth: {"pattern": _pattern(random, 0)},
    "dependentRequired": lambda random, depth: {random.choice(NAMES): _names(random, 0)},
    "dependentSchemas": _by_name,
    "minProperties": _count,
    "maxProperties": _count,
    "unevaluatedProperties": lambda random, depth: False,
}
_LOGIC: dict[str, Make] = {
    "anyOf": _some,
    "oneOf": _some,
    "allOf": _some,
    "not": _one,
    "if": _one,
    "then": _one,
    "else": _one,
}


def spellings(value: Json) -> Iterator[str]:
    """A value's texts, by the order of its properties."""
    if isinstance(value, dict):
        for order in permutations(value):
            inner = [list(islice(spellings(value[name]), 6)) for name in order]
            for texts in product(*inner):
                pairs = zip(order, texts, strict=True)
                yield "{" + ",".join(f"{_text(name)}:{text}" for name, text in pairs) + "}"
    elif isinstance(value, list):
        for texts in product(*(list(islice(spellings(item), 6)) for item in value)):
            yield f"[{','.join(texts)}]"
    else:
        yield _text(value)


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()
