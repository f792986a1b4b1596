"""Values of programs as options: what a program has at hand is no reason for an error of another library."""

import enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from segue.errors import InvalidField
from segue.library.conversion import plain


class Word(enum.StrEnum):
    END = "end"


class Number(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    ("value", "is_the_same_as"),
    [
        (("a", "b"), ["a", "b"]),
        (np.float64(0.5), 0.5),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ({50256: -100, np.int64(7): np.float32(1)}, {"50256": -100, "7": 1.0}),
        ((n for n in (1, 2)), [1, 2]),
        (Word.END, "end"),
        (Number.TWO, 2),
        (Path("a") / "b", str(Path("a") / "b")),
        ({"type": "object", "enum": ("a", None)}, {"type": "object", "enum": ["a", None]}),
    ],
)
def test_a_value_is_what_json_would_have_brought(value: object, is_the_same_as: Any) -> None:
    found = plain("x", value)
    assert found == is_the_same_as
    assert type(found) is type(is_the_same_as)


def test_what_has_no_such_form_is_told_with_the_option() -> None:
    around: dict[str, Any] = {}
    around["x"] = around
    for value, words in [
        (b"END", "stop must be a text or token ids, not bytes"),  # base64 was taken for the text
        ([object()], "stop cannot be a value of type object"),
        (around, "stop is nested too deeply"),
    ]:
        with pytest.raises(InvalidField, match=words) as error:
            plain("stop", value)
        assert error.value.param == "stop"
