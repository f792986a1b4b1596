"""`uniqueItems` where the schema lists the values: every array of them that fits, and no other."""

import json
from itertools import product
from random import Random
from typing import Any

import pytest

from segue.bench.exactness.trial import is_whole
from segue.engine.constraints.compiler import Compiler
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
POOL: list[Any] = [1, True, None, "1", "ä", [1], {"a": None}, 2.5]


@pytest.mark.parametrize("seed", range(8))
def test_arrays_of_different_values_of_a_list(seed: int) -> None:
    random = Random(seed)
    values = random.sample(POOL, random.randrange(2, 5))
    first = random.choice(values)
    least, most = random.randrange(3), random.choice((2, 3, 9))
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": values}, "minItems": least}
    schema |= {"maxItems": most} if seed % 2 else {"prefixItems": [{"const": first}]}
    grammar = COMPILER.compile(Constraint(kind="json_schema", value=json.dumps(schema), param="it"))
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in POOL]
    listed = [text for text, value in zip(texts, POOL, strict=True) if _is_among(value, values)]
    for length in range(4):
        for items in product(texts, repeat=length):
            fits = set(items) <= set(listed) and len(set(items)) == length >= least
            if seed % 2:
                fits = fits and length <= most
            elif items:
                fits = fits and items[0] == texts[_place(first)]
            assert is_whole(grammar, f"[{','.join(items)}]") == fits, (schema, items)


def _place(value: Any) -> int:
    return next(i for i, other in enumerate(POOL) if other is value)


def _is_among(value: Any, values: list[Any]) -> bool:
    return any(value is other for other in values)


@pytest.mark.parametrize(
    ("number", "most", "is_taken"), [(10, 99, True), (11, 99, False), (44, 2, True), (45, 3, False)]
)
def test_lists_are_as_long_as_the_documents_say(number: int, most: int, is_taken: bool) -> None:
    schema = {"uniqueItems": True, "items": {"enum": list(range(number))}, "maxItems": most}
    constraint = Constraint(kind="json_schema", value=json.dumps(schema), param="it")
    if is_taken:
        assert is_whole(COMPILER.compile(constraint), "[1,0]")
    else:
        with pytest.raises(InvalidField, match="items of a short list"):
            COMPILER.compile(constraint)
