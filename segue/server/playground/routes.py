"""The routes of the page: its files, the guide, the state of the models, a request in other dialects."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rich.filesize import decimal
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from segue import __version__
from segue.bounds import MAX_TRANSLATED_BYTES
from segue.dialects.base import Dialect, Operation
from segue.engine.seam import Models
from segue.errors import BodyTooLarge, InvalidField, MalformedBody, SegueError, UnknownModel
from segue.server.framing import TEXT, encode
from segue.server.json_body import decode
from segue.server.pages.own_address import own_address
from segue.server.playground.guide import guide
from segue.server.playground.paths import NAMES, STATIC
from segue.server.playground.snippets import LANGUAGES, snippet
from segue.server.playground.translate import translate
from segue.server.service import loaded_stats
from segue.types import ModelInfo

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Files change only with the version, but then browsers must load the new ones.
_FRESH = {"cache-control": "no-cache"}

_OVERVIEW = f"""\
Segue {__version__}: text completions, in the dialects of six systems.

  /                  the page for people, in a browser
  /v1/completions    POST {{"prompt": "Once upon a time"}}
  /v1/models         what is served
  /docs              every field of every dialect; /openapi.json for machines
  /ollama            Ollama is running there; /llamacpp, /vllm, ... are the others
  /health /metrics   for those who watch over it
"""


def routes(models: Models, dialects: Sequence[Dialect], root: str, needs_key: bool) -> list[Route]:
    home = next((each for each in dialects if each.name == "openai"), dialects[0])
    source = home.operations[0]
    known = encode(guide(source, dialects, __version__))
    state = _State(models, needs_key)
    translations = _Translations(models, source, dialects, needs_key)

    async def guide_json(request: Request) -> Response:
        return Response(known, headers=_FRESH, media_type="application/json")

    return [
        Route("/", _Home(root), methods=["GET"]),
        Route("/play/guide.json", guide_json, methods=["GET"]),
        Route("/play/models.json", state.answer, methods=["GET"]),
        Route("/play/translate", translations.answer, methods=["POST"]),
        Route("/play/{name}", _file, methods=["GET"]),
    ]


@cache
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes()


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in NAMES:
        return Response("There is no such file.\n", 404, media_type="text/plain")
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(_content(name), headers={**_FRESH, "content-type": kind})


class _Home:
    """`/`: a page for browsers, text for other clients, and the text that Ollama's clients check for."""

    def __init__(self, root: str) -> None:
        self._is_ollama = root == "ollama"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._response(Request(scope))(scope, receive, send)

    def _response(self, request: Request) -> Response:
        vary = {"vary": "accept, user-agent", **_FRESH}
        if "text/html" in request.headers.get("accept", ""):
            kind = {"content-type": _TYPES["html"]}
            return Response(_content("index.html"), headers={**vary, **kind})
        if self._is_ollama or "ollama" in request.headers.get("user-agent", "").lower():
            return Response("Ollama is running", headers=vary, media_type=TEXT)
        return Response(_OVERVIEW, headers=vary, media_type=TEXT)


class _State:
    """Every served model, once each with its aliases and adapters, and the load of those that are loaded."""

    def __init__(self, models: Models, needs_key: bool) -> None:
        self._models = models
        self._needs_key = needs_key

    async def answer(self, request: Request) -> Response:
        models = self._models
        stats = await loaded_stats(models)
        names: dict[str, list[str]] = {}
        for name in models.names:
            names.setdefault(models.resolve(name), []).append(name)
        cards = [self._card(name, called, stats) for name, called in names.items()]
        body = encode({"models": cards, "keys": self._needs_key})
        return Response(body, headers=_FRESH, media_type="application/json")

    def _card(self, name: str, called: list[str], stats: Mapping[str, Any]) -> dict[str, Any]:
        info: ModelInfo | None = getattr(self._models.loaded(name), "info", None)
        adapters = [each.name for each in self._models.adapters(name)]
        return {
            "name": name,
            "aliases": [each for each in called if each not in (name, *adapters)],
            "adapters": adapters,
            "status": self._status(name, stats),
            "info": info,
            "size": decimal(info.file_bytes) if info else "",
            "stats": stats.get(name),
        }

    def _status(self, name: str, stats: Mapping[str, Any]) -> str:
        if self._models.loaded(name) is not None:
            return "ready" if name in stats else "restarting"
        return "loading" if self._models.is_loading(name) else "idle"


class _Translations:
    """A request of the page in every dialect, and as code."""

    def __init__(
        self, models: Models, source: Operation, dialects: Sequence[Dialect], needs_key: bool
    ) -> None:
        self._models = models
        self._source = source
        self._dialects = {dialect.name: dialect for dialect in dialects}
        self._error = dialects[0].error
        self._needs_key = needs_key

    async def answer(self, request: Request) -> Response:
        try:
            content = await asyncio.to_thread(
                self._translated, await request.body(), own_address(request.scope)
            )
        except SegueError as error:
            reply = self._error(error)
            return Response(encode(reply.body), reply.status, media_type="application/json")
        return Response(encode(content), media_type="application/json")

    def _translated(self, content: bytes, url: str) -> dict[str, Any]:
        asked = _decoded(content)
        dialect = self._dialects.get(str(asked.get("dialect")))
        body = asked.get("request")
        if dialect is None:
            raise InvalidField(f"dialect must be one of {', '.join(self._dialects)}", "dialect")
        if type(body) is not dict:
            raise InvalidField("request must be a JSON object", "request")
        text = str(asked.get("text") or "")
        info = self._info(body.get("model"))
        translated = translate(body, self._source, dialect, info, text=text)
        code = {each: snippet(translated, each, url, self._needs_key) for each in LANGUAGES}
        return {
            "path": translated.path,
            "body": translated.body,
            "lost": translated.lost,
            "code": code,
        }

    def _info(self, model: Any) -> ModelInfo | None:
        """Of the model that the request names, if it is served and loaded."""
        try:
            engine = self._models.loaded(model if type(model) is str else "")
        except UnknownModel:
            return None
        return None if engine is None else engine.info


def _decoded(content: bytes) -> dict[str, Any]:
    if len(content) > MAX_TRANSLATED_BYTES:
        raise BodyTooLarge(f"The body must be at most {MAX_TRANSLATED_BYTES} bytes here.")
    asked = decode(content)
    if type(asked) is not dict:
        raise MalformedBody("The body must be a JSON object.")
    return asked
