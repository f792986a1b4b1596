import ast
import hashlib
import inspect
import os
import textwrap
import threading
from pathlib import Path

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from segue.dialects import DIALECTS
from segue.dialects.ollama import OLLAMA
from segue.dialects.openai import OPENAI
from segue.errors import SetupError, Unauthorized
from segue.server.admission import keys
from segue.server.admission.keys import PUBLIC_PATHS, Key, Keyring, parse_key, read_keys
from segue.server.admission.policy import Policy
from segue.server.app import create_app
from tests.server.conftest import Launch
from tests.support.fakes import OneModel, ScriptedEngine, speak
from tests.support.waiting import PATIENCE_S

ADA = parse_key("ada:s3cret-of-ada")
BOB = parse_key("bob:s3cret-of-bob")


PUBLIC_UNDER_PREFIXES = {
    "/openai/health",
    "/llamacpp/health",
    "/llamacpp/v1/health",
    "/llamastack/v1/health",
    "/llamastack/v1/version",
    "/mistralrs/",
    "/mistralrs/health",
    "/ollama/",
    "/vllm/health",
    "/vllm/ping",
}


def who(ring: Keyring, *headers: tuple[bytes, bytes]) -> str:
    return ring.check({"type": "http", "headers": list(headers)})


def test_forms_of_a_key() -> None:
    digest = hashlib.sha256(b"abc").digest()
    assert parse_key("ada:abc") == Key("ada", digest)
    assert parse_key(f"ada:sha256:{digest.hex()}") == Key("ada", digest)
    assert parse_key("abc") == parse_key(f"sha256:{digest.hex()}")
    assert parse_key("abc").name == f"key-{digest.hex()[:8]}"
    assert parse_key("ada:a:b==").digest == hashlib.sha256(b"a:b==").digest()


@pytest.mark.parametrize("text", ["", "ada:", "a b", "ada:s3cret key", "a/b:s3cret", "s3cret\x7f"])
def test_a_bad_key_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(SetupError) as error:
        parse_key(text)
    assert "s3cret" not in error.value.message


@pytest.mark.parametrize(
    "header",
    [
        (b"authorization", b"Bearer s3cret-of-ada"),
        (b"authorization", b"bearer  s3cret-of-ada "),
        (b"x-api-key", b"s3cret-of-ada"),
    ],
)
def test_both_headers_open(header: tuple[bytes, bytes]) -> None:
    assert who(Keyring([BOB, ADA]), header) == "ada"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"s3cret-of-ada")],
        [(b"authorization", b"Basic s3cret-of-ada")],
        [(b"authorization", b"Bearer ' OR 1=1--")],
        [(b"authorization", b"Bearer s3cret-of-ad")],
        [(b"authorization", b"Bearer s3cret-of-adaa")],
        [(b"authorization", b"Bearer \xff\xfe")],
        [(b"authorization", b"Bearer " + b"x" * 60_000)],
        [(b"authorization", b"Bearer s3cret-of-ada")] * 2,
        [(b"authorization", b"Bearer s3cret-of-ada"), (b"x-api-key", b"wrong")],
        [(b"x-api-key", b"")],
    ],
)
def test_anything_else_does_not(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthorized) as error:
        who(Keyring([ADA, BOB]), *headers)
    assert "s3cret" not in error.value.message


def test_without_keys_in_it_nothing_opens_a_ring() -> None:
    with pytest.raises(Unauthorized):
        who(Keyring([]), (b"x-api-key", b""))


def test_keys_are_looked_up_by_digest() -> None:
    """However many there are, none is compared with what was sent, so that neither time nor work depends on them."""
    many = [Key(f"key-{i}", hashlib.sha256(b"%d" % i).digest()) for i in range(100_000)]
    ring = Keyring([*many, ADA])
    for found in (b"0", b"99999"):
        assert who(ring, (b"x-api-key", found)) == f"key-{found.decode()}"
    assert who(ring, (b"x-api-key", b"s3cret-of-ada")) == "ada"
    source = ast.parse(textwrap.dedent(inspect.getsource(keys.Keyring._find)))
    assert not [node for node in ast.walk(source) if isinstance(node, ast.Compare | ast.For)]


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# people\n\nada:one\n")
    ring = Keyring([BOB], file)
    assert who(ring, (b"x-api-key", b"one")) == "ada"
    assert who(ring, (b"x-api-key", b"s3cret-of-bob")) == "bob"
    file.write_text("eve:two\n")
    os.utime(file, ns=(1, 1))
    ring.look()
    assert who(ring, (b"x-api-key", b"two")) == "eve"
    with pytest.raises(Unauthorized):
        who(ring, (b"x-api-key", b"one"))


def test_a_damaged_file_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys"
    file.write_text("ada:one\n")
    ring = Keyring([], file)
    file.write_text("two words\n")
    ring.look()
    assert who(ring, (b"x-api-key", b"one")) == "ada"
    assert "stay in force" in caplog.text
    assert "words" not in caplog.text
    with pytest.raises(SetupError):
        read_keys(file)


def test_a_file_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"keys: No such file or directory$"):
        read_keys(tmp_path / "keys")


def test_a_deleted_file_takes_its_keys_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at the first look: it may be about to be replaced."""
    file = tmp_path / "keys"
    file.write_text("ada:one\n")
    ring = Keyring([BOB], file)
    file.unlink()
    ring.look()
    assert who(ring, (b"x-api-key", b"one")) == "ada"
    ring.look()
    with pytest.raises(Unauthorized):
        who(ring, (b"x-api-key", b"one"))
    assert who(ring, (b"x-api-key", b"s3cret-of-bob")) == "bob"
    assert "is gone" in caplog.text
    file.write_text("ada:one\n")
    ring.look()
    assert who(ring, (b"x-api-key", b"one")) == "ada"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs here")
def test_a_pipe_in_place_of_the_file_hangs_nobody(tmp_path: Path) -> None:
    """Only the thread that watches it."""
    file = tmp_path / "keys"
    file.write_text("ada:one\n")
    ring = Keyring([], file)
    file.unlink()
    os.mkfifo(file)
    looking = threading.Thread(target=ring.look, daemon=True)
    looking.start()
    assert who(ring, (b"x-api-key", b"one")) == "ada"
    file.write_text("eve:two\n")  # as soon as somebody reads the pipe, this returns
    looking.join(PATIENCE_S)
    assert who(ring, (b"x-api-key", b"two")) == "eve"


def test_every_route_but_the_public_ones_asks_for_a_key() -> None:
    """Deny by default: a route that somebody adds tomorrow is closed too."""
    models = OneModel()
    models.load(ScriptedEngine(speak("a")))
    app = create_app(models, DIALECTS, policy=Policy(keys=Keyring([ADA])))
    client = TestClient(app, raise_server_exceptions=False)
    paths = [route.path for route in app.routes if isinstance(route, Route)]
    assert len(paths) > 5
    assert app.state.admission.public_paths == {"*", *PUBLIC_PATHS, *PUBLIC_UNDER_PREFIXES}
    for path in [*paths, "/", "/nothing", "/health/", "/%2Fhealth", "/health/../v1/models"]:
        for method in ("GET", "POST", "DELETE", "PATCH", "OPTIONS"):
            status = client.request(method, path.replace("{", "x").replace("}", "x")).status_code
            is_public = path in PUBLIC_PATHS | PUBLIC_UNDER_PREFIXES
            assert (status == 401) is not is_public, f"{method} {path} gave {status}"


def test_health_under_a_prefix_is_public() -> None:
    """As it is in the systems of those prefixes."""
    models = OneModel()
    models.load(ScriptedEngine(speak("a")))
    app = create_app(models, DIALECTS, policy=Policy(keys=Keyring([ADA])))
    client = TestClient(app, raise_server_exceptions=False)
    assert {client.get(path).status_code for path in PUBLIC_UNDER_PREFIXES} == {200}


def test_401_is_told_in_the_dialects_shape(launch: Launch) -> None:
    live = launch(keys=Keyring([ADA]))
    answer = live.complete()
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "invalid_api_key"
    assert live.engine.requests == []
    for path in PUBLIC_PATHS:
        assert live.client.get(path).status_code == 200
    live.client.headers["authorization"] = "Bearer s3cret-of-ada"
    assert live.complete().status_code == 200


def test_cached_prefixes_are_each_keys_own(launch: Launch) -> None:
    """A shared prefix would answer sooner, and so tell one key what another has asked."""
    live = launch(keys=Keyring([ADA, BOB]))
    for secret in ("s3cret-of-ada", "s3cret-of-bob"):
        live.client.headers["x-api-key"] = secret
        for salt in (None, "ada", "key:ada"):
            live.complete(cache_salt=salt)
    salts = [request.cache_salt for request in live.engine.requests]
    assert salts[0] == "key:ada"
    assert salts[3] == "key:bob"
    assert len({*salts[:1], *salts[3:]}) == 4
    assert [r.tenant for r in live.engine.requests] == ["ada"] * 3 + ["bob"] * 3


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/models HTTP/1.1\r\nhost: a/?x=",
        b"GET /v1/models HTTP/1.1\r\nhost: x/health?",
        b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nhost: x/health?",
        b"GET http://x/health?/v1/models HTTP/1.1\r\nhost: x",
        b"GET //health/../v1/models HTTP/1.1\r\nhost: x",
        b"GET /health%2f..%2fv1/models HTTP/1.1\r\nhost: x",
        b"GET /v1/models?/health HTTP/1.1\r\nhost: x",
        b"GET /v1/models#/health HTTP/1.1\r\nhost: x",
        b"GET /v1/models;/health HTTP/1.1\r\nhost: x",
    ],
)
def test_the_path_that_is_checked_is_the_path_that_is_served(launch: Launch, head: bytes) -> None:
    """Whatever a Host or a target pretends, nothing but the routed path decides."""
    live = launch(keys=Keyring([ADA]))
    with live.connect() as client:
        client.sendall(head + b"\r\n\r\n")
        status = int(client.recv(65536).split()[1])
    assert status in (400, 401, 404) or (status == 200 and b"/health?" in head.split()[1])


def test_a_key_may_not_unload_what_others_use(launch: Launch) -> None:
    live = launch(client_keep_alive=False, dialects=(OPENAI, OLLAMA))
    body = {"model": "tiny", "prompt": "a", "stream": False, "keep_alive": 0}
    answer = live.client.post("/api/generate", json=body)
    assert answer.status_code == 200
    assert "keep_alive" in answer.headers["x-segue-ignored"]
    assert live.models.kept == []
