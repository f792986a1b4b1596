"""The OpenAPI document, used: requests made from it must never break the server."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from segue import __version__
from segue.dialects import DIALECTS
from segue.runners.fake import FakeLoader
from segue.server.app import mounts_of
from segue.server.pages.openapi import openapi
from tests.support.live import Served, serve
from tests.support.waiting import PATIENCE_S

# Every dialect once: what is served without a prefix is served with one too.
MOUNTS = [mount for mount in mounts_of(DIALECTS, "openai") if mount[0]]
NOT_SERVED = 501  # what a dialect knows and this server says clearly that it does not do
DOCUMENT = openapi(MOUNTS, __version__)
ENDLESS = {"/llamacpp/models/sse"}  # it goes on for as long as its client stays
OPERATIONS = [
    (path, method)
    for path, item in DOCUMENT["paths"].items()
    for method in item
    if path not in ENDLESS
]


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """Its context is short, so that an answer without a limit is short too; its model stays loaded."""
    served = serve(FakeLoader(context_length=48), "fake", client_keep_alive=False)
    yield served
    served.stop()


@cache
def schema() -> Any:
    import schemathesis  # half a second, in every process of pytest if it were imported above

    return schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_breaks_the_server(server: Served, path: str, method: str) -> None:
    """Neither those that the document allows nor those that it does not."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode

    operation = schema()[path][method]

    @settings(
        max_examples=8,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=st.one_of([operation.as_strategy(mode) for mode in GenerationMode]))
    def ask(case: Any) -> None:
        response = case.call(base_url=server.url, timeout=PATIENCE_S)
        if response.status_code != NOT_SERVED:
            case.validate_response(response, checks=[not_a_server_error])

    ask()
