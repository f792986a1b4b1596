"""Routes found by their path at once: a router tries its routes one by one, which takes a while with so many."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from segue.server.transport.heads import WHOLE_SERVER

_ROUTE = "segue.route"


class PathRoutes(BaseRoute):
    """The routes without parameters. A router that has it first tries the others only for other paths."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes: dict[str, list[Route]] = {}
        for route in routes:
            if not route.param_convertors:
                self._routes.setdefault(route.path, []).append(route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As a route: a path that is there for other methods only is a partial match."""
        best: tuple[Match, Scope] = Match.NONE, {}
        for route in self._routes.get(scope.get("path", ""), ()):
            match, found = route.matches(scope)
            if match.value > best[0].value:
                best = match, {**found, _ROUTE: route}
        return best

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: Route = scope[_ROUTE]
        if scope["method"] not in (route.methods or ()):
            # A route would name its own methods only.
            routes = self._routes[scope["path"]]
            allowed = {method for each in routes for method in each.methods or ()}
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
        await route.handle(scope, receive, send)


class WholeServer(BaseRoute):
    """OPTIONS *: whether a server is there, and its methods on any path (RFC 9110, 9.3.7)."""

    def __init__(self, routes: Sequence[Route]) -> None:
        methods = {method for route in routes for method in route.methods or ()}
        self._allow = ", ".join(sorted({*methods, "OPTIONS"}))

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_asked = (scope.get("method"), scope.get("path")) == ("OPTIONS", WHOLE_SERVER)
        return (Match.FULL if is_asked else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await Response(headers={"Allow": self._allow})(scope, receive, send)
