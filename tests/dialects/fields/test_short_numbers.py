"""Which dialects keep numbers of a schema to few digits: those whose systems do."""

from typing import Any

import pytest

from segue.dialects.llamacpp.fields import NATIVE_FIELDS, OPENAI_FIELDS
from segue.dialects.mistralrs.fields import FIELDS as MISTRALRS
from segue.dialects.ollama.fields import GENERATE
from segue.dialects.openai.fields import FIELDS as ROOT
from segue.dialects.vllm.fields import FIELDS as VLLM

INTEGER = {"type": "integer"}
IN_CHAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": INTEGER}}
JSON = {"type": "json_object"}


@pytest.mark.parametrize(
    ("table", "name", "value", "max_digits"),
    [
        (NATIVE_FIELDS, "json_schema", INTEGER, 16),
        (OPENAI_FIELDS, "response_format", IN_CHAT, 16),
        (OPENAI_FIELDS, "response_format", JSON, 16),
        (GENERATE, "format", INTEGER, 16),
        (GENERATE, "format", "json", None),
        (VLLM, "response_format", IN_CHAT, None),
        (VLLM, "structured_outputs", {"json": INTEGER}, None),
        (MISTRALRS, "grammar", {"type": "json_schema", "value": INTEGER}, None),
        (ROOT, "json_schema", INTEGER, None),
    ],
)
def test_dialects_have_the_numbers_of_their_systems(
    table: Any, name: str, value: Any, max_digits: int | None
) -> None:
    kind = table.pick(name).rows[0].kind
    assert kind.read(value).max_digits == max_digits
    assert kind.schema()


def test_what_is_no_constraint_passes() -> None:
    assert not hasattr(GENERATE.pick("format").rows[0].kind.read(""), "max_digits")
