"""Any value in any field of any dialect: a call or a 4xx, never a 5xx, never a hang. New dialects come in too."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segue.dialects import DIALECTS
from segue.dialects.base import Companion, Dialect, Operation, Stamp
from segue.dialects.fields.table import Table
from segue.errors import RequestError
from segue.runners.fake import FakeLoader
from segue.server.admission.request_caps import Caps
from tests.support.live import Live

STAMP = Stamp(request_id="r", public_id="r", created=0, seed=1, fingerprint="f")
PARSE_EXAMPLES = 40
HTTP_EXAMPLES = 10

End = tuple[Dialect, Operation | Companion]
OPERATIONS: list[End] = [(d, end) for d in DIALECTS for end in d.operations]
COMPANIONS: list[End] = [(d, end) for d in DIALECTS for end in d.companions if end.table.rows]

EDGES = [-(2**63) - 1, -(2**31), -2, -1, 0, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400]
numbers = st.one_of(st.sampled_from(EDGES), st.integers(), st.floats(), st.just(1e308))
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["\x00", "\ufeff", "\u202e", "../../x", "a" * 5000, "(" * 300, "{}", "[", "-1"]
    ),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)


def names(end: Operation | Companion) -> list[str]:
    return sorted({name.partition(".")[0] for row in end.table.rows for name in row.spellings})


def values(known: list[str]) -> st.SearchStrategy[Any]:
    keys = st.one_of(st.sampled_from(known), texts)
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=8,
    )


def bodies(end: Operation | Companion) -> st.SearchStrategy[dict[str, Any]]:
    """A request that would be served, with up to three of its fields turned odd."""
    known = names(end)
    odd = st.dictionaries(st.sampled_from(known), values(known), min_size=1, max_size=3)
    return odd.map(lambda fields: good(end.table) | fields)


def good(table: Table) -> dict[str, Any]:
    return {row.name: "a" for row in table.rows if row.required or row.name == "prompt"}


def title(end: End) -> str:
    return f"{end[0].name} {end[1].path}"


def sent_on(operation: Operation, body: Any) -> RequestError | None:
    """What it is refused with; else it can cross to the worker."""
    try:
        call = operation.parse(body, STAMP)
        Caps().check(call)
    except RequestError as error:
        return error
    msgspec.msgpack.encode(call.request)
    return None


@pytest.mark.parametrize("end", OPERATIONS, ids=title)
def test_any_body_parses_or_is_refused(end: End) -> None:
    operation = end[1]
    assert isinstance(operation, Operation)

    @settings(max_examples=PARSE_EXAMPLES)
    @given(st.one_of(bodies(operation), values(names(operation))))
    def check(body: Any) -> None:
        refusal = sent_on(operation, body)
        assert refusal is None or (400 <= refusal.status < 502 and len(refusal.message) < 2000)

    check()


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """A short context, so that "until the context is full" is soon."""
    with Live(FakeLoader(context_length=48, num_slots=16)) as server:
        yield server


@pytest.mark.parametrize("end", OPERATIONS + COMPANIONS, ids=title)
def test_any_field_over_http(live: Live, end: End) -> None:
    dialect, target = end
    if "{" in target.path:
        pytest.skip("its path has parameters")
    method = target.method if isinstance(target, Companion) else "POST"

    @settings(
        max_examples=HTTP_EXAMPLES,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(bodies(target))
    def check(body: dict[str, Any]) -> None:
        answer = live.client.request(
            method,
            f"/{dialect.name}{target.path}",
            content=json.dumps(body),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text[:500]

    check()
    live.wait_until_idle()
    assert live.stats().restarts == 0
