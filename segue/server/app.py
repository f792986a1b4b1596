"""The ASGI application: each dialect at its prefix, and one of them at the root too."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from segue import __version__
from segue.dialects.base import Companion, Dialect, Operation, Reply
from segue.engine.seam import Models
from segue.errors import SegueError, UnknownPath, WrongMethod
from segue.metrics.page import CONTENT_TYPE, Metrics
from segue.processes.sharing import ALONE, Sharing
from segue.server.admission.admission import Admission, Trace
from segue.server.admission.guard import Guard
from segue.server.admission.keys import PUBLIC_PATHS
from segue.server.admission.ledger import Ledger
from segue.server.admission.limits import Limiter
from segue.server.admission.policy import Policy
from segue.server.admission.request_record import RequestRecord
from segue.server.companions import Companions
from segue.server.endpoints import Completions
from segue.server.framing import encode, reply_messages
from segue.server.kept_streams import KeptStreams
from segue.server.pages.docs_page import STYLE, DocsPage
from segue.server.pages.near_paths import hint_of
from segue.server.pages.openapi import Mount, openapi
from segue.server.path_routes import PathRoutes, WholeServer
from segue.server.playground import routes as playground
from segue.server.service import ModelService, loaded_stats
from segue.server.transport.heads import WHOLE_SERVER


def create_app(
    models: Models,
    dialects: Sequence[Dialect],
    *,
    root: str = "openai",
    policy: Policy | None = None,
    trace: Trace | None = None,
    sharing: Sharing = ALONE,
) -> Starlette:
    """`root`: the dialect that is also served without a prefix. Connections use `state.admission` to refuse early."""
    policy = policy or Policy()
    limiter = Limiter(policy.limits, ledger=Ledger(sharing))
    own_names = list(dict.fromkeys(map(models.resolve, models.names)))
    metrics = Metrics(sharing.path("metrics"), sharing.process, sharing.num_processes, own_names)
    started = int(time.time()) if sharing.started is None else sharing.started
    streams = KeptStreams(is_alone=sharing.num_processes == 1)
    service = ModelService(
        models,
        version=__version__,
        started=started,
        defaults=policy.defaults,
        served=metrics.served,
        may_unload=policy.client_keep_alive,
        ping_s=policy.ping_interval_s,
        streams=streams,
    )
    mounts = mounts_of(dialects, root)
    dialect_at = _dialect_finder(mounts)
    routes: list[Route] = [
        *_own_pages(mounts, dialects),
        *playground.routes(models, dialects, root, needs_key=policy.keys is not None),
        *_routes(mounts, models, policy, service, streams),
        # After the dialects' routes: a dialect at the root may have its own /metrics.
        Route("/metrics", MetricsPage(models, metrics), methods=["GET"]),
    ]
    unknown = _unknown(routes)
    check_path = _path_check(routes, unknown)
    admission = Admission(
        dialect_at,
        policy,
        limiter,
        metrics,
        public_paths=public_paths(mounts),
        free_paths=free_paths(mounts),
        check_path=check_path,
        trace=trace,
        num_processes=sharing.num_processes,
    )
    routes = [Route("/readyz", Ready(models, admission), methods=["GET"]), *routes]
    app = Starlette(
        routes=[PathRoutes(routes), *routes, WholeServer(routes)],
        middleware=[Middleware(Guard, admission=admission)],
        exception_handlers={HTTPException: _refuse(dialect_at, unknown)},
    )
    app.router.redirect_slashes = False  # a redirect would contain the Host that the client sent
    app.state.admission = admission
    return app


# --- routes --------------------------------------------------------------------------------------


def mounts_of(dialects: Sequence[Dialect], root: str) -> list[Mount]:
    """Every path with its operation or companion. The first one for a method and path is used."""
    home = next(dialect for dialect in dialects if dialect.name == root)
    claims: list[Mount] = [("", home, end) for end in _ends(home)]
    for dialect in dialects:
        claims += [(f"/{dialect.name}", dialect, end) for end in _ends(dialect)]
    for dialect in dialects:
        claims += [("", dialect, end) for end in _ends(dialect) if end.is_native]
    kept: dict[tuple[str, str], Mount] = {}
    for prefix, dialect, end in claims:
        kept.setdefault((_method(end), prefix + end.path), (prefix, dialect, end))
    return list(kept.values())


def _ends(dialect: Dialect) -> Iterator[Operation | Companion]:
    yield from dialect.operations
    yield from dialect.companions


def public_paths(mounts: list[Mount]) -> frozenset[str]:
    companions = [(prefix, end) for prefix, _, end in mounts if isinstance(end, Companion)]
    public = {prefix + end.path for prefix, end in companions if end.is_public}
    return PUBLIC_PATHS | {WHOLE_SERVER} | public


def free_paths(mounts: list[Mount]) -> frozenset[tuple[str, str]]:
    """With their methods."""
    companions = [(prefix, end) for prefix, _, end in mounts if isinstance(end, Companion)]
    return frozenset(
        (end.method, prefix + end.path) for prefix, end in companions if not end.is_counted
    )


def _method(end: Operation | Companion) -> str:
    return end.method if isinstance(end, Companion) else "POST"


def _routes(
    mounts: list[Mount],
    models: Models,
    policy: Policy,
    service: ModelService,
    streams: KeptStreams,
) -> list[Route]:
    routes = []
    for prefix, dialect, end in mounts:
        error = end.error or dialect.error
        if isinstance(end, Operation):
            end = policy.caps.told_by(end)
            app: Companions | Completions = Completions(end, error, models, policy, streams)
        else:
            app = Companions(end, error, service, policy.request_timeout_s)
        routes.append(Route(prefix + end.path, app, methods=[_method(end)]))
    return routes


Unknown = Callable[[Scope], UnknownPath]


def _path_check(routes: Sequence[Route], unknown: Unknown) -> Callable[[Scope], None]:
    """A check that raises UnknownPath if no route has the path, for any method."""
    plain = {route.path for route in routes if not route.param_convertors}
    patterns = [route for route in routes if route.param_convertors]

    def check(scope: Scope) -> None:
        is_served = scope["path"] in plain or any(
            route.matches(scope)[0] is not Match.NONE for route in patterns
        )
        if not is_served:
            raise unknown(scope)

    return check


def _unknown(routes: Sequence[Route]) -> Unknown:
    served = frozenset(route.path for route in routes)

    def unknown(scope: Scope) -> UnknownPath:
        hint = hint_of(scope["path"], served)
        nothing = f"There is nothing at {scope['method']} {scope['path'][:200]!a}."
        error = UnknownPath(f"{nothing} {hint}" if hint else nothing)
        error.hint = hint
        return error

    return unknown


def _dialect_finder(mounts: list[Mount]) -> Callable[[str], Dialect]:
    """Path → the dialect for its errors, with the shape that the path may have of its own. Where nothing is served:
    the longest matching prefix."""
    home = mounts[0][1]
    starts = {f"/{dialect.name}/": dialect for _, dialect, _ in mounts}
    starts |= {
        start: replace(dialect, error=dialect.root_error or dialect.error)
        for _, dialect, _ in mounts
        for start in dialect.root_paths
    }
    starts |= {end.path.partition("{")[0]: dialect for prefix, dialect, end in mounts if not prefix}
    longest_first = sorted(starts.items(), key=lambda start: -len(start[0]))

    def find(path: str) -> Dialect:
        return next((dialect for start, dialect in longest_first if path.startswith(start)), home)

    usual = {
        prefix + end.path: replace(dialect, error=end.error) if end.error else dialect
        for prefix, dialect, end in mounts
    }
    return lambda path: usual.get(path) or find(path)


# --- other pages ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Page:
    """A constant answer."""

    reply: Reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        for message in reply_messages(self.reply):
            await send(message)


def _own_pages(mounts: list[Mount], dialects: Sequence[Dialect]) -> list[Route]:
    css = (("content-type", "text/css; charset=utf-8"),)
    pages = {
        "/livez": Reply({"status": "alive"}),  # regardless of the models: a busy server is alive
        "/openapi.json": Reply(openapi(mounts, __version__)),
        "/docs/style.css": Reply(STYLE, headers=css),
    }
    constant = [Route(path, Page(reply), methods=["GET"]) for path, reply in pages.items()]
    return [Route("/docs", DocsPage(dialects, __version__, mounts), methods=["GET"]), *constant]


class Ready:
    """Readiness: whether a request would be admitted now. If not, send no requests, but do not restart the server."""

    def __init__(self, models: Models, admission: Admission) -> None:
        self._models = models
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = "full" if self._admission.is_full else await self._model_status()
        for message in reply_messages(Reply({"status": status}, 200 if status == "ready" else 503)):
            await send(message)

    async def _model_status(self) -> str:
        name = self._models.names[0]
        engine = self._models.loaded(name)
        if engine is None:
            # A model that loads on first use counts as ready.
            return "loading" if self._models.is_loading(name) else "ready"
        try:
            await engine.stats()
        except SegueError:
            return "restarting"
        return "ready"


class MetricsPage:
    """Metrics for Prometheus. Models that are not loaded are left out, and are not loaded for this."""

    def __init__(self, models: Models, metrics: Metrics) -> None:
        self._models = models
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        figures = self._metrics.exposition(await loaded_stats(self._models))
        for message in reply_messages(Reply(figures, headers=(("content-type", CONTENT_TYPE),))):
            await send(message)


Handler = Callable[[Request, Exception], Awaitable[Response]]


def _refuse(dialect_at: Callable[[str], Dialect], unknown: Unknown) -> Handler:
    async def refuse(request: Request, error: Exception) -> Response:
        path, method = request.scope["path"], request.scope["method"]
        allow = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
        if allow:
            wrong: SegueError = WrongMethod(f"{method} is not allowed here: use {allow['Allow']}.")
        else:
            wrong = unknown(request.scope)
        RequestRecord.of(request.scope).refuse(wrong)
        return _response(dialect_at(path).error(wrong), allow)

    return refuse


def _response(reply: Reply, headers: dict[str, str]) -> Response:
    is_text = isinstance(reply.body, str)
    body = reply.body if is_text else encode(reply.body)
    media = "text/plain" if is_text else "application/json"
    return Response(body, reply.status, {**dict(reply.headers), **headers}, media)
