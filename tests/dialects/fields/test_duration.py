import math
from typing import Any

import pytest

from segue.dialects.fields.duration import Duration
from segue.dialects.fields.kinds import Mismatch


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0.0),
        (300, 300.0),
        (1.5, 1.5),
        (-1, math.inf),
        ("0", 0.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("300ms", 0.3),
        ("1.5s", 1.5),
        (".5s", 0.5),
        ("5.s", 5.0),
        ("+5m", 300.0),
        ("2\u03bcs", 2e-6),
        ("-1m", math.inf),
        ("-1", math.inf),
        ("-0s", 0.0),
        (1e15, math.inf),
        (10**400, math.inf),
        ("9" * 60, math.inf),
    ],
)
def test_seconds(value: Any, seconds: float) -> None:
    assert Duration().read(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["", "m", "5 m", "5mm", "5x", "--1m", "+-1m", ".s", "1e400", True, [], "9" * 65]
)
def test_refused(value: Any) -> None:
    with pytest.raises(Mismatch):
        Duration().read(value)
