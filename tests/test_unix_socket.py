import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue import unix_socket
from segue.errors import SetupError
from segue.unix_socket import listening, path_of
from tests.support.sockets import needs_unix_sockets, place

pytestmark = needs_unix_sockets


@pytest.fixture
def path() -> Iterator[str]:
    with place() as path:
        yield path


def leave(path: str) -> None:
    """What a server leaves that is killed."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        sock.listen()


def answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/run/segue.sock", "/run/segue.sock"),
        ("/run/segue", "/run/segue"),
        ("unix:/run/segue", "/run/segue"),
        ("unix:///run/segue", "/run/segue"),
        ("segue.sock", f"{os.getcwd()}/segue.sock"),
        ("unix:segue", f"{os.getcwd()}/segue"),
        ("./segue", f"{os.getcwd()}/segue"),
        ("~/segue", f"{Path.home()}/segue"),
        ("127.0.0.1", None),
        ("::1", None),
        ("localhost", None),
        ("http://localhost/x", None),
    ],
)
def test_an_address_names_a_socket_or_does_not(address: str, path: str | None) -> None:
    assert path_of(address) == path


def test_the_file_is_there_as_long_as_somebody_listens(path: str) -> None:
    with listening(path) as listener:
        assert listener.getsockname() == path
        assert answers(path)
    assert not os.path.lexists(path)


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o640), (0o007, 0o660), (0o077, 0o600)])
def test_who_may_connect_follows_from_the_umask(path: str, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with listening(path):
            assert stat.S_IMODE(os.stat(path).st_mode) == mode
    finally:
        os.umask(before)


def test_others_never_connect(path: str) -> None:
    before = os.umask(0)
    try:
        with listening(path):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
    finally:
        os.umask(before)


def test_a_socket_that_a_killed_server_left_is_replaced(path: str) -> None:
    leave(path)
    assert unix_socket.problem(path) is None
    with listening(path):
        assert answers(path)


def test_one_that_is_listened_to_is_not_replaced(path: str) -> None:
    with listening(path):
        with pytest.raises(SetupError) as error, listening(path):
            pass
        assert answers(path), "the first one stays"
    told = f"Cannot listen on unix:{path}: another server listens there."
    assert error.value.message == told


def test_one_whose_backlog_is_full_is_listened_to(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen(0)
        waiting.connect(path)
        assert unix_socket.problem(path) == "another server listens there"


def test_a_file_is_not_replaced(path: str) -> None:
    Path(path).write_text("precious", encoding="utf-8")
    with pytest.raises(SetupError, match="a file is there that is no socket"), listening(path):
        pass
    assert Path(path).read_text("utf-8") == "precious"


def test_a_link_is_not_followed(path: str) -> None:
    os.symlink("elsewhere", path)
    with pytest.raises(SetupError, match="a file is there that is no socket"), listening(path):
        pass
    assert not os.path.lexists(f"{os.path.dirname(path)}/elsewhere")


def test_what_another_server_put_there_stays(path: str) -> None:
    """An operator removed ours, and started another server."""
    with listening(path):
        os.unlink(path)
        other = socket.socket(socket.AF_UNIX)
        other.bind(path)
        other.listen()
    with other:
        assert answers(path)


def test_one_that_was_removed_is_not_missed(path: str) -> None:
    with listening(path):
        os.unlink(path)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (f"/tmp/{'x' * 200}", "must be at most 10"),
        ("/nowhere/at/all.sock", "there is no folder /nowhere/at"),
    ],
)
def test_a_path_that_cannot_be_had_is_told(path: str, told: str) -> None:
    with pytest.raises(SetupError, match=told), listening(path):
        pass


def test_a_system_without_such_sockets_is_told_what_it_has(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Python on Windows."""
    monkeypatch.delattr(socket, "AF_UNIX")
    with pytest.raises(SetupError, match="no Unix sockets; write an address"), listening(path):
        pass
