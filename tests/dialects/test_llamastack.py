import pytest

from segue.dialects.llamastack import LLAMASTACK, stream_error
from segue.errors import BY_CODE, EngineFault, Overloaded, SegueError


@pytest.mark.parametrize(
    ("error", "status", "title"),
    [
        (Overloaded("slow down"), 429, "Too Many Requests"),
        (EngineFault("broken"), 500, "Internal Server Error"),
    ],
)
def test_errors_are_those_of_its_document(error: SegueError, status: int, title: str) -> None:
    reply = LLAMASTACK.error(error)
    assert reply.status == status
    assert reply.body == {"status": status, "title": title, "detail": error.message}


def test_every_error_has_both_shapes() -> None:
    for leaf in BY_CODE.values():
        assert "why" in LLAMASTACK.error(leaf("why")).body["detail"]
        assert "why" in stream_error(leaf("why")).body["error"]["message"]
