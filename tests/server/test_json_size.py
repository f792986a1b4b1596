import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.bounds import MAX_JSON_DEPTH
from segue.errors import BodyTooLarge, MalformedBody
from segue.server import json_size
from segue.server.json_body import decode
from segue.server.json_size import check_depth, check_size

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a",[]{}\\\n', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(alphabet='"\\[,', max_size=3), inner, max_size=3)
    ),
    max_leaves=20,
)


def num_inside(value: Any) -> tuple[int, int]:
    """Commas, brackets and colons, and these two alone, of a value as json writes it."""
    if not isinstance(value, list | dict):
        return 0, 0
    inner = [num_inside(each) for each in (value.values() if isinstance(value, dict) else value)]
    num_own = 1 + (len(value) if isinstance(value, dict) else 0)
    num_containers = num_own + sum(containers for _, containers in inner)
    return sum(values for values, _ in inner) + num_own + max(len(value) - 1, 0), num_containers


def is_refused(body: bytes) -> bool:
    try:
        check_size(body)
    except BodyTooLarge:
        return True
    return False


@given(VALUES, st.integers(1, 9))
def test_values_are_counted_exactly_wherever_pieces_are_cut(value: Any, piece: int) -> None:
    """Signs inside strings are none, whatever is escaped in them."""
    num_values, num_containers = num_inside(value)
    body = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_PIECE_BYTES", piece)
        for most_values, most_containers in (
            (num_values, num_containers),
            (num_values - 1, num_containers),
            (num_values, num_containers - 1),
        ):
            patch.setattr(json_size, "MAX_JSON_VALUES", most_values)
            patch.setattr(json_size, "MAX_JSON_CONTAINERS", most_containers)
            is_right = most_values >= num_values and most_containers >= num_containers
            assert is_refused(body) is not is_right


@pytest.mark.parametrize(
    ("value", "is_allowed"),
    [
        (b"[" + b"[]," * 140_000 + b"[]]", False),
        (b"[" + b"[1]," * 140_000 + b"[1]]", False),
        (b"[" + b"1," * 530_000 + b"1]", False),
        (b"[" + b"1," * 520_000 + b"1]", True),
        (b"{" + b",".join(b'"%d":1' % i for i in range(140_000)) + b"}", False),
        (b'"' + b"[,{" * 1_000_000 + b'"', True),
        (b'"' + b'\\\\\\",[' * 300_000 + b'"', True),
    ],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(
    value: bytes, is_allowed: bool
) -> None:
    body = b'{"x": %b}' % value
    if is_allowed:
        assert decode(body)["x"]
    else:
        with pytest.raises(BodyTooLarge, match="at most 524288 JSON values"):
            decode(body)


def depth_of(value: Any) -> int:
    if not isinstance(value, list | dict):
        return 0
    return 1 + max(map(depth_of, value.values() if isinstance(value, dict) else value), default=0)


@given(VALUES, st.integers(1, 9))
def test_depth_is_found_exactly_wherever_pieces_are_cut(value: Any, piece: int) -> None:
    depth = depth_of(value)
    body = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_PIECE_BYTES", piece)
        patch.setattr(json_size, "MAX_JSON_DEPTH", depth)
        check_depth(body)
        patch.setattr(json_size, "MAX_JSON_DEPTH", depth - 1)
        if depth:
            with pytest.raises(MalformedBody, match="nested more than"):
                check_depth(body)


def test_the_deepest_body_is_decoded_and_one_level_more_is_refused_whatever_pythons_limit_is() -> (
    None
):
    for opening, middle, closing in ((b"[", b"", b"]"), (b'{"a":', b"1", b"}")):
        depth = MAX_JSON_DEPTH
        decode(opening * depth + middle + closing * depth)
        depth += 1
        with pytest.raises(MalformedBody, match="nested more than 512 deep"):
            decode(opening * depth + middle + closing * depth)


@given(st.binary(max_size=40))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    with contextlib.suppress(BodyTooLarge, MalformedBody):
        decode(body * 2000)
