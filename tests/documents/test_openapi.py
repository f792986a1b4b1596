"""The OpenAPI document, used: requests made from it must never break the server."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error

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
SCHEMA = schemathesis.openapi.from_dict(openapi(MOUNTS, __version__))


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    """Its context is short, so that an answer without a limit is short too."""
    served = serve(FakeLoader(context_length=48), "fake")
    yield served
    served.stop()


@SCHEMA.parametrize()
@settings(
    max_examples=12,
    phases=[Phase.generate],
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_server(server: Served, case: schemathesis.Case[Any]) -> None:
    response = case.call(base_url=server.url, timeout=PATIENCE_S)
    if response.status_code != NOT_SERVED:
        case.validate_response(response, checks=[not_a_server_error])
