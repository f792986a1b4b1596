from typing import Any

import pytest

from segue.dialects.fields.adapter_fields import MAX_ADAPTERS, AdapterScales
from segue.dialects.fields.kinds import Mismatch

ENTRY = {"id": 1, "scale": 0.5}


@pytest.mark.parametrize(
    ("value", "at"),
    [
        (ENTRY, ""),
        ([ENTRY] * (MAX_ADAPTERS + 1), ""),
        ([ENTRY, 5], "[1]"),
        ([{"scale": 0.5}], "[0].id"),
        ([{"id": MAX_ADAPTERS, "scale": 0.5}], "[0].id"),
        ([ENTRY, {"id": 1, "scale": "1"}], "[1].scale"),
    ],
    ids=["object", "too many", "number", "no id", "id", "scale"],
)
def test_what_is_wrong_is_named_with_its_place(value: Any, at: str) -> None:
    with pytest.raises(Mismatch) as wrong:
        AdapterScales().read(value)
    assert wrong.value.at == at
