"""Context shift in llama.cpp's dialect: `--context-shift`, and which tokens stay and go."""

from typing import Any

import pytest

from segue.dialects.base import Stamp
from segue.dialects.fields.token_fields import SHIFTS
from segue.dialects.llamacpp import COMPLETION, INFILL
from segue.dialects.llamacpp.settings import generation_settings
from segue.errors import InvalidField
from segue.types import Shift

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="0123abcd")


def test_a_context_shifts_where_the_server_says_so() -> None:
    body = {"prompt": "a", "n_keep": -1, "n_discard": 30}
    on = COMPLETION.parse(body, STAMP, {SHIFTS: True})
    assert on.request.shift == Shift(num_kept=-1, num_dropped=30, optional=True)
    assert on.ignored == ()
    told = generation_settings(on)
    assert (told["n_keep"], told["n_discard"]) == (-1, 30)
    assert COMPLETION.parse({"prompt": "a"}, STAMP, {SHIFTS: True}).request.shift is not None
    off = COMPLETION.parse(body, STAMP)
    assert (off.request.shift, set(off.ignored)) == (None, {"n_keep", "n_discard"})
    told = generation_settings(off)
    assert (told["n_keep"], told["n_discard"]) == (0, 0)


@pytest.mark.parametrize("field", ["n_keep", "n_discard"])
@pytest.mark.parametrize("value", [-2, 2**31, 2**63, 0.5, "1"])
def test_what_stays_and_goes_is_in_range(field: str, value: Any) -> None:
    """CVE-2026-21869: below 0, llama.cpp wrote out of bounds."""
    with pytest.raises(InvalidField, match=f"Field '{field}'"):
        COMPLETION.parse({"prompt": "a", field: value}, STAMP)


def test_what_fills_a_gap_does_not_shift() -> None:
    body = {"input_prefix": "a", "input_suffix": "b", "n_keep": 9}
    call = INFILL.parse(body, STAMP, {SHIFTS: True})
    assert (call.request.shift, call.ignored) == (None, ("n_keep",))
