"""One completion of a server, which may be another than it was taken for: any error is one sentence."""

import json
from collections.abc import Iterator
from contextlib import suppress
from email.message import Message
from http.client import BadStatusLine, HTTPException
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, ProxyHandler, Request, build_opener

import msgspec

from segue import __version__
from segue.commands.folding import Chunk
from segue.commands.running.unix_http import HOST, UnixHandler, socket_in
from segue.errors import RequestError, SetupError, Unavailable

TIMEOUT_S = 600.0
_NAMED_KEY = "(SEGUE_API_KEY has a colon: where it is NAME:KEY, as a server takes it, a client sends KEY alone.)"
_NO_KEY = "(SEGUE_API_KEY is not set, which is where its key is read from.)"
_STREAM = "text/event-stream"
_TLS_ALERT = "\x15\x03"  # how a server begins that speaks TLS, and did not understand


class _Logprobs(msgspec.Struct):
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None


class _Choice(msgspec.Struct):
    index: int
    text: str
    token_ids: list[int] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Shape(msgspec.Struct):
    """As much of a chunk as is read of it."""

    choices: list[_Choice]
    model: str = ""
    system_fingerprint: str | None = None
    usage: dict[str, Any] | None = None


class _NoRedirects(HTTPRedirectHandler):
    """Python would ask there without the prompt, and send the key along."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        raise HTTPError(req.full_url, code, msg, headers, fp)


def _opener(url: str) -> OpenerDirector:
    """Of requests to that server. No proxy reaches a Unix socket."""
    path = socket_in(url)
    if path is None:
        return build_opener(_NoRedirects)
    return build_opener(_NoRedirects, ProxyHandler({}), UnixHandler(path))


def ask_server(url: str, body: Chunk, key: str) -> Iterator[Chunk]:
    """The chunks of a server. `url`: its address, with or without /v1, or unix:PATH. Raises SegueError."""
    headers = {"content-type": "application/json", "user-agent": f"segue/{__version__}"}
    if key:
        if not (key.isascii() and key.isprintable()):
            raise SetupError("SEGUE_API_KEY has a character that no header carries")
        headers["authorization"] = f"Bearer {key}"
    request = Request(_checked_url(url), json.dumps(body).encode(), headers)
    has_ended = has_begun = False
    try:
        with _opener(url).open(request, timeout=TIMEOUT_S) as answer:
            yield {
                "seed": _whole(answer.headers.get("x-segue-seed")) or body.get("seed"),
                "ignored": ", ".join(answer.headers.get_all("x-segue-ignored", [])),
            }
            for line in answer:
                data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
                has_ended |= data == b"[DONE]"
                if data.startswith(b"{"):
                    chunk = _read_chunk(data, url)
                    has_begun |= bool(chunk["choices"])
                    has_ended |= any(each.get("finish_reason") for each in chunk["choices"])
                    yield chunk
        if not (has_begun and has_ended):
            kind = answer.headers.get_content_type()
            instead = f": it sent {kind}" if not has_begun and kind != _STREAM else ""
            raise Unavailable(f"{url} sent no answer, or not all of it{instead}")
    except HTTPError as error:
        with error:
            message, param = _complaint(error)
        raise RequestError(
            f"{error.code} of {url}: {message}{_key_hint(error, key)}", param
        ) from None
    except (URLError, HTTPException, OSError) as error:
        raise Unavailable(_unreached(url, error)) from None


def _unreached(url: str, error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if getattr(reason, "reason", "") == "WRONG_VERSION_NUMBER":
        return f"{url} does not speak https: try http"
    if type(error) is BadStatusLine:  # not one of a connection that ended before any line
        line = str(error)
        instead = "try https" if line.startswith(_TLS_ALERT) else f"it sent {line[:80]!a}"
        return f"{url} does not speak HTTP: {instead}"
    return f"{url} cannot be reached: {reason}"


def _checked_url(url: str) -> str:
    if socket_in(url) is not None:
        return completions_url(HOST)
    with suppress(ValueError):  # of an address of IPv6 that has no end
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.netloc and parts.path.isascii():
            return completions_url(url)
    raise SetupError(f"--url must be an address such as http://127.0.0.1:8080, not {url!a}")


def completions_url(url: str) -> str:
    base = url.rstrip("/")
    if urlsplit(base).path.endswith("/completions"):
        return base
    return f"{base}/completions" if base.endswith("/v1") else f"{base}/v1/completions"


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _read_chunk(data: bytes, url: str) -> Chunk:
    """A chunk with its choices. Raises Unavailable for an error, and for what is no chunk."""
    try:
        chunk: Chunk = json.loads(data)
        if error := chunk.get("error"):
            said = error.get("message", error) if isinstance(error, dict) else error
            raise Unavailable(str(said))
        chunk.setdefault("choices", [])
        msgspec.convert(chunk, _Shape)
    except (ValueError, RecursionError):
        sent = data[:200].decode(errors="replace")
        raise Unavailable(f"{url} sent what is no completion: {sent!a}") from None
    return chunk


def _complaint(error: HTTPError) -> tuple[str, str | None]:
    """What a server says, and the field that it is about, if it names one."""
    if (place := error.headers.get("location")) and 300 <= error.code < 400:
        return f"it is not here, but at {place}", None
    content = error.read()
    try:
        said = json.loads(content)["error"]
        if not isinstance(said, dict):
            return str(said), None
        param = said.get("param")
        return str(said["message"]), param if isinstance(param, str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        is_page = content.lstrip().startswith(b"<")
        return (str(error.reason) if is_page else content[:300].decode(errors="replace")), None


def _key_hint(error: HTTPError, key: str) -> str:
    if error.code != 401:
        return ""
    return f" {_NO_KEY}" if not key else f" {_NAMED_KEY}" if ":" in key else ""
