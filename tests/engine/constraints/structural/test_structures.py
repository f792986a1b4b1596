"""The older form of structural tags: structures with triggers. Errors name the place as the caller wrote it."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from segue.dialects import DIALECTS
from segue.dialects.base import Operation, Stamp
from segue.engine.constraints.compiler import Compiler, Grammar
from segue.errors import InvalidField
from segue.runners.fake import VOCAB_SIZE, FakeVocab
from segue.types import Constraint
from tests.engine.constraints.guided import is_whole
from tests.engine.constraints.structural.oracle import PAIR, Format, accepts

COMPILER = Compiler(FakeVocab(), VOCAB_SIZE)
STAMP = Stamp(request_id="r", public_id="p", created=5, seed=99, fingerprint="f")
GOOD = {"begin": "<f=a>", "schema": PAIR, "end": "</f>"}


def compiled(value: Any) -> Grammar:
    return COMPILER.compile(Constraint(kind="structural_tag", value=json.dumps(value), param="it"))


def older(*structures: Any, triggers: Any = ("<f=",)) -> dict[str, Any]:
    return {"structures": list(structures), "triggers": list(triggers)}


def test_it_is_the_same_as_triggered_tags() -> None:
    grammar = compiled(older(GOOD, triggers=["<f=", ""]))
    content = {"type": "json_schema", "json_schema": PAIR}
    tag = {"type": "tag", "begin": "<f=a>", "content": content, "end": "</f>"}
    same: Format = {"type": "triggered_tags", "triggers": ["<f="], "tags": [tag]}
    for sample in ["", "x", "<f", "<f=", 'x<f=a>{"a":1}</f> y', "<f=a></f>"]:
        assert is_whole(grammar, sample) == accepts(same, sample)


WRONG: list[tuple[dict[str, Any], str]] = [
    (older(GOOD, GOOD | {"schema": {"type": "x"}}), "structures[1].schema: at #: "),
    (
        older(GOOD | {"schema": {"properties": {"a": {"type": "x"}}}}),
        "structures[0].schema: at #/properties/a: ",
    ),
    (older(GOOD, GOOD | {"schema": 5}), "structures[1].schema: Expected `object`, got `int`"),
    (older(GOOD, {"begin": "a"}), "structures[1]: Object missing required field `schema`"),
    (older(GOOD | {"style": "x"}), "structures[0]: Object contains unknown field `style`"),
    (older(GOOD, 7), "structures[1]: Expected `object`, got `int`"),
    (older(GOOD | {"begin": "<g"}), "structures[0].begin: no trigger begins '<g'"),
    (older(GOOD, GOOD | {"schema": {}}), "structures[0].schema: where this JSON begins"),
    (
        older(GOOD | {"schema": {"type": "integer"}, "end": ""}),
        "structures[0].schema: where this number ends",
    ),
    (older(*[GOOD] * 1001), "structures: there are more than 1000"),
    (older(), "structures: Expected `array` of length >= 1"),
    (older(GOOD, triggers=["<f=", 5]), "triggers[1]: Expected `str`, got `int`"),
    (older(GOOD, triggers=["<f=", "a" * 3000]), "triggers: triggers, excludes and ends to look"),
    ({"structures": [GOOD]}, "it: Object missing required field `triggers`"),
    (older(GOOD) | {"loop": True}, "it: Object contains unknown field `loop`"),
]

SPELLINGS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "response_format": lambda tag: {"response_format": {"type": "structural_tag", **tag}},
    "structured_outputs.structural_tag": lambda tag: {
        "structured_outputs": {"structural_tag": {"type": "structural_tag", **tag}}
    },
    "structured_outputs.structural_tag as text": lambda tag: {
        "structured_outputs": {"structural_tag": json.dumps(tag)}
    },
}
TAKERS = [
    (dialect.operations[0], name)
    for dialect in DIALECTS
    for name in SPELLINGS
    if name.split(".")[0] in dialect.operations[0].table.known
]


def test_dialects_that_take_them_are_found() -> None:
    assert len(TAKERS) > 6


@pytest.mark.parametrize(
    ("operation", "name"), TAKERS, ids=[f"{taker.path} {name}" for taker, name in TAKERS]
)
def test_an_error_names_the_place_as_it_was_written(operation: Operation, name: str) -> None:
    for tag, said in WRONG:
        body = {"model": "m", "prompt": "x", **SPELLINGS[name](tag)}
        constraint = operation.parse(body, STAMP).request.constraint
        assert constraint is not None
        with pytest.raises(InvalidField) as refused:
            COMPILER.compile(constraint)
        field = name.removesuffix(" as text")
        assert refused.value.message.startswith(f"{field}: {said}"), refused.value.message
        assert refused.value.param == field.split(".")[0]
