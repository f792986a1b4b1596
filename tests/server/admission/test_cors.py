import pytest
from starlette.types import Scope

from segue.errors import Forbidden, SetupError
from segue.server.admission.cors import Origins
from tests.server.conftest import Launch, Live

EVIL = {"origin": "https://evil.example"}
PREFLIGHT = {"access-control-request-method": "POST"}


def scope(*headers: tuple[bytes, bytes], method: str = "GET", version: str = "1.1") -> Scope:
    return {"type": "http", "method": method, "http_version": version, "headers": list(headers)}


def test_without_leave_no_page_reads_or_writes(live: Live) -> None:
    for origin in ("https://evil.example", "null", "http://localhost", ""):
        headers = {"origin": origin}
        posted = live.client.post("/v1/completions", json={"prompt": "a"}, headers=headers)
        asked = live.client.options("/v1/completions", headers=headers | PREFLIGHT)
        read = live.client.get("/v1/models", headers=headers)
        assert (posted.status_code, asked.status_code, read.status_code) == (403, 200, 200)
        for answer in (posted, asked, read):
            assert not [name for name in answer.headers if name.startswith("access-control")]
    assert live.engine.requests == []


def test_a_body_without_a_type_needs_no_preflight_and_gets_nowhere(live: Live) -> None:
    """fetch() of a Blob without a type is the one way a page can post JSON unasked."""
    request = live.client.build_request("POST", "/v1/completions", content=b'{"prompt":"a"}')
    request.headers["origin"] = "https://evil.example"
    assert "content-type" not in request.headers
    assert live.client.send(request).status_code == 403


def test_the_servers_own_page_may(live: Live) -> None:
    for scheme in ("http", "https"):
        headers = {"origin": f"{scheme}://{live.host}:{live.port}"}
        answer = live.client.post("/v1/completions", json={"prompt": "a"}, headers=headers)
        assert answer.status_code == 200


def test_an_origin_that_was_let_in(launch: Launch) -> None:
    live = launch(origins=Origins(["https://app.example"]))
    headers = {"origin": "https://app.example"}
    asked = live.client.options("/v1/completions", headers=headers | PREFLIGHT)
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-headers"] == "*"
    posted = live.client.post("/v1/completions", json={"prompt": "a"}, headers=headers)
    assert posted.status_code == 200
    for answer in (asked, posted):
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["vary"] == "origin"
        assert answer.headers["access-control-allow-credentials"] == "true"
    assert live.client.post("/v1/completions", json={}, headers=EVIL).status_code == 403


def test_a_star_lets_every_origin_in(launch: Launch) -> None:
    live = launch(origins=Origins(["*"]))
    posted = live.client.post("/v1/completions", json={"prompt": "a"}, headers=EVIL)
    assert posted.status_code == 200
    assert posted.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in posted.headers


LOCAL = ["http://localhost", "https://localhost:8443", "http://127.0.0.1:3000", "http://[::1]:80"]
NOT_LOCAL = ["http://localhost.evil.example", "http://notlocalhost", "app://localhost", "null"]


@pytest.mark.parametrize("origin", LOCAL)
def test_localhost_is_every_page_of_this_machine(launch: Launch, origin: str) -> None:
    live = launch(origins=Origins(["localhost"]))
    wanted = {"access-control-request-headers": "authorization, content-type"}
    asked = live.client.options("/v1/completions", headers={"origin": origin} | PREFLIGHT | wanted)
    assert (asked.status_code, asked.content) == (200, b"")
    assert asked.headers["access-control-allow-origin"] == origin
    assert asked.headers["access-control-allow-credentials"] == "true"
    assert asked.headers["access-control-allow-headers"] == "authorization, content-type"
    assert asked.headers["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"


@pytest.mark.parametrize("origin", NOT_LOCAL)
def test_localhost_is_nobody_else(origin: str) -> None:
    with pytest.raises(Forbidden):
        Origins(["localhost"]).check(scope((b"origin", origin.encode()), method="POST"))


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        ("vscode-webview://1a2b3c", True),
        ("app://obsidian.md", True),
        ("https://app", False),
        ("apps://x", False),
    ],
)
def test_a_scheme_by_its_name(origin: str, is_allowed: bool) -> None:
    origins = Origins(["vscode-webview:", "app:"])
    asked = scope((b"origin", origin.encode()), method="POST")
    if is_allowed:
        assert (b"access-control-allow-origin", origin.encode()) in origins.check(asked)
    else:
        with pytest.raises(Forbidden):
            origins.check(asked)


def test_an_origin_stated_twice_is_nobodys() -> None:
    twice = scope((b"origin", b"https://app.example"), (b"origin", b"x"), method="POST")
    with pytest.raises(Forbidden):
        Origins(["https://app.example", "*"]).check(twice)


@pytest.mark.parametrize(
    "origin", ["foo", "https://x/", "https://x/page", "", "x.org:80", "https:// x"]
)
def test_what_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(SetupError, match="--cors-origin must be"):
        Origins([origin])
