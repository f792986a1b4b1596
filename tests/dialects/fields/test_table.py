from typing import Any

import pytest

from segue.dialects.fields.kinds import Boolean, Integer, Text
from segue.dialects.fields.table import Field, Table, show
from segue.errors import InvalidField, MalformedBody

TABLE = Table(
    (
        Field("n", Integer(1, 9), "A number.", "n", aliases=("num", "count")),
        Field("options.n", Integer(1, 9), "The same, elsewhere.", "n"),
        Field("options.deep", Boolean(), "Nested.", "shape.deep", default=False),
        Field("user", Text(9), "No effect."),
        Field("id", Text(9), "No effect either."),
        Field("strict", Boolean(), "Refuses null.", "strict", nullable=False),
    )
)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ({}, {}),
        ({"n": 3}, {"n": 3}),
        ({"count": 3}, {"n": 3}),
        ({"n": None, "count": 3}, {"n": 3}),
        ({"options": None}, {}),
        ({"options": {"n": 2, "deep": True}}, {"n": 2, "shape.deep": True}),
    ],
)
def test_values_go_to_their_targets(body: dict[str, Any], values: dict[str, Any]) -> None:
    draft = TABLE.read(body)
    assert draft.values == {"shape.deep": False} | values
    assert draft.ignored == []


def test_a_row_without_target_is_checked_and_reported() -> None:
    draft = TABLE.read({"user": "u", "id": None})
    assert draft.values == {"shape.deep": False}
    assert draft.ignored == ["user"]
    with pytest.raises(InvalidField, match="user must be"):
        TABLE.read({"user": 5})


def test_first_spelling_wins_and_the_rest_is_reported() -> None:
    draft = TABLE.read({"count": 3, "n": 2, "other": 1, "options": {"x": 1, "y": None}})
    assert draft.values["n"] == 2
    assert draft.given["n"] == "n"
    assert draft.ignored == ["count", "other", "options.x"]


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"n": 10}, "n", "n must be an integer from 1 to 9, not 10"),
        ({"num": "3"}, "num", 'num must be an integer from 1 to 9, not "3"'),
        ({"n": 1, "num": "3"}, "num", 'num must be an integer from 1 to 9, not "3"'),
        ({"options": 3}, "options", "options must be an object, not 3"),
        ({"options": {"deep": 1}}, "options.deep", "options.deep must be true or false, not 1"),
        ({"n": 1, "options": {"n": 1}}, "options.n", "options.n cannot be given together with n"),
        ({"strict": None}, "strict", "strict must be true or false, not null"),
        ({"user": 1}, "user", "user must be a string of at most 9 characters, not 1"),
    ],
)
def test_errors_name_the_field_as_sent(body: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(InvalidField) as error:
        TABLE.read(body)
    assert error.value.param == param
    assert error.value.message == message


def test_required() -> None:
    table = Table((Field("prompt", Text(9), "Required.", "prompts", required=True),))
    for body in ({}, {"prompt": None}):
        with pytest.raises(InvalidField, match=r"^prompt is required$"):
            table.read(body)
    with pytest.raises(InvalidField, match=r'^prompt is required \(not known here: "promt"\)$'):
        table.read({"promt": "x"})
    with pytest.raises(
        InvalidField, match=r'"messages"; messages are of chat, which is not served\)$'
    ):
        table.read({"messages": []})


@pytest.mark.parametrize("body", [None, [], "x", 1, True])
def test_body_must_be_an_object(body: Any) -> None:
    with pytest.raises(MalformedBody):
        TABLE.read(body)


def test_a_dialect_changes_rows_of_its_parent() -> None:
    child = TABLE.extend(Field("n", Integer(1, 2), "Fewer.", "n"), without=("user",))
    assert child.read({"user": 1}).ignored == ["user"]
    with pytest.raises(InvalidField):
        child.read({"n": 3})
    assert TABLE.read({"n": 3}).values["n"] == 3
    assert TABLE.with_defaults(n=5, options__deep=True).read({}).values == {
        "n": 5,
        "shape.deep": True,
    }
    with pytest.raises(ValueError, match="missing"):
        TABLE.with_defaults(missing=1)
    with pytest.raises(ValueError, match="two rows"):
        TABLE.extend(Field("count", Integer(1, 2), "Taken.", "n"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (1, "1"),
        (10**99, "1" + "0" * 39 + "…"),
        ('a"\n', r'"a\"\n"'),
        ("x" * 99, '"' + "x" * 40 + '…"'),
        ([1, 2], "a list of 2"),
        ([], "an empty list"),
        ({}, "an empty object"),
        ({"a": 1, "b\n": 2}, r'an object with "a", "b\n"'),
        ({f"k{i}": i for i in range(9)}, 'an object with "k0", "k1", "k2", "k3", …'),
    ],
)
def test_values_in_messages_are_short_and_escaped(value: Any, shown: str) -> None:
    assert show(value) == shown
