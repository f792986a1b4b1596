"""What is not served is 404 in the shape of the system that would be asked, whatever else is wrong."""

from collections.abc import Iterator

import pytest

from segue.dialects import DIALECTS
from tests.server.conftest import TWO_WORDS, Live

MEDIA = ["application/json", "text/plain", "application/x-www-form-urlencoded", ""]


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    live = Live(TWO_WORDS, DIALECTS)
    yield live
    live.stop()


@pytest.mark.parametrize("media", MEDIA)
@pytest.mark.parametrize("prefix", ["", *(f"/{dialect.name}" for dialect in DIALECTS)])
def test_an_unknown_route_is_404_whatever_the_content_type(
    server: Live, prefix: str, media: str
) -> None:
    headers = {"content-type": media} if media else {}
    answer = server.client.post(f"{prefix}/v1/nothing", content=b"{", headers=headers)
    assert answer.status_code == 404
    # The connection is still good for the next request.
    assert server.complete().status_code == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/api/chat", "/api/embed", "/api/nothing"])
def test_unserved_paths_of_ollama_at_the_root_have_its_shape(
    server: Live, method: str, path: str
) -> None:
    answer = server.client.request(method, path)
    assert answer.status_code == 404
    assert answer.json() == {"error": f"There is nothing at {method} '{path}'."}


@pytest.mark.parametrize("prefix", ["", "/openai", "/llamastack", "/ollama"])
def test_no_name_is_not_a_model(server: Live, prefix: str) -> None:
    assert server.client.get(f"{prefix}/v1/models/").status_code == 404
    assert server.client.get(f"{prefix}/v1/models/tiny").status_code == 200
