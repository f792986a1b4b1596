import socket
import stat
from pathlib import Path

import pytest

from segue.errors import SetupError
from segue.processes.doors import Doors


@pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="connections cannot be passed on here")
def test_the_folder_is_this_users_alone_and_goes_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)  # too long for a socket's path
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Doors() as doors:
        doors.open("tiny")
        doors.open("large")
        folder = Path(doors.folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(set(doors.addresses.values())) == 2
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(doors.addresses["large"])
    assert not folder.exists()
    assert list(deep.iterdir()) == []


def test_a_system_that_cannot_pass_connections_on_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "send_fds", raising=False)
    with pytest.raises(SetupError, match="--server-processes must be 1 on this system"):
        Doors()
