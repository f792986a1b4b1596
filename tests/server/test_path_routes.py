import pytest
from starlette.routing import Match, Route

from segue.dialects import DIALECTS
from segue.server.app import create_app
from segue.server.path_routes import PathRoutes
from tests.support.fakes import OneModel


async def end(scope: object, receive: object, send: object) -> None: ...


PLAIN = [Route("/a", end, methods=["GET"]), Route("/a", end, methods=["POST"])]
ROUTES = [*PLAIN, Route("/{name}", end, methods=["GET"])]


def found(method: str, path: str) -> tuple[Match, object]:
    match, more = PathRoutes(ROUTES).matches({"type": "http", "method": method, "path": path})
    return match, more.get("segue.route")


@pytest.mark.parametrize(("method", "index"), [("GET", 0), ("POST", 1)])
def test_a_route_is_found_by_path_and_method(method: str, index: int) -> None:
    assert found(method, "/a") == (Match.FULL, PLAIN[index])


def test_another_method_is_a_partial_match() -> None:
    assert found("PUT", "/a")[0] is Match.PARTIAL


def test_paths_with_parameters_are_left_to_the_router() -> None:
    assert found("GET", "/b")[0] is Match.NONE


@pytest.mark.parametrize("root", [dialect.name for dialect in DIALECTS])
def test_it_finds_what_the_router_would(root: str) -> None:
    app = create_app(OneModel(), DIALECTS, root=root)
    first, *others = app.routes
    routes = [route for route in others if isinstance(route, Route)]
    for route in routes:
        for method in sorted(route.methods or ()):
            scope = {"type": "http", "method": method, "path": route.path}
            by_path = first.matches(scope)[1].get("segue.route")
            usual = next(each for each in routes if each.matches(scope)[0] is Match.FULL)
            assert by_path is usual or route.param_convertors
