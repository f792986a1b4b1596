import errno
import json
import logging
import signal
import socket
import subprocess
import sys

import httpx2
import pytest

from segue.errors import SetupError
from segue.server.transport import listen
from segue.server.transport.listen import address, bind
from segue.types import Delta, Failed, Prompted
from tests.server.conftest import Live
from tests.support.fakes import Pause, speak
from tests.support.serving import Served, serving
from tests.support.waiting import PATIENCE_S, wait_until


def test_port_in_use_is_said_plainly() -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(SetupError, match=f"Cannot listen on 127.0.0.1 port {port}") as error:
            bind("127.0.0.1", port)
    assert error.value.message.endswith(" in use. Choose another with --port; 0 takes a free one.")


def has_ipv6() -> bool:
    """Python may know it where the machine has no such address, as in most containers."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EADDRNOTAVAIL, "This machine has no such address"),
        (errno.EACCES, "Ports below 1024 are for administrators"),
    ],
)
def test_an_address_that_cannot_be_had_says_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "the address, repeated")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(SetupError, match=advice):
        listen.bind("192.0.2.1", 80)


def test_a_name_without_an_address_is_said_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name was there twice, the second time as Python writes an address."""

    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(
            socket.EAI_NONAME,
            "not known (while attempting to bind on address ('none.invalid', 80))",
        )

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(SetupError) as error:
        listen.bind("none.invalid", 80)
    said = "Cannot listen on none.invalid port 80: not known. No address has this name; "
    assert error.value.message.startswith(said)
    assert "while" not in error.value.message


def test_who_gives_several_addresses_is_told_of_the_one_that_is_all() -> None:
    with pytest.raises(SetupError, match=":: is every one of both families"):
        listen.bind("127.0.0.1,::1", 0)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here")
def test_ipv6_address() -> None:
    with bind("::1", 0) as listener:
        assert address(listener) == f"http://[::1]:{listener.getsockname()[1]}"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_every_address_means_those_of_both_families() -> None:
    with bind("::", 0) as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()


def test_stopping_ends_open_streams_with_an_event() -> None:
    """A deploy must not cut a stream silently: it ends while the socket is still open."""
    pause = Pause()
    end = Failed("unavailable", "shutting down")
    live = Live(lambda _: [Prompted(0, (1,), 0), Delta(0, "one", (1,)), pause, end])

    async def close(drain_s: float = 0.0) -> None:
        pause.go.set()

    live.on_stop = close
    body = {"prompt": "a", "stream": True}
    with live.client.stream("POST", "/v1/completions", json=body) as answer:
        lines = answer.iter_lines()
        assert '"one"' in next(lines)
        live.ask_to_stop()
        rest = [line for line in lines if line]
    live.stop()
    assert "shutting down" in rest[0]
    assert rest[1] == "data: [DONE]"


def test_a_body_that_never_comes_is_not_waited_for() -> None:
    """Once the engines are closed there is nothing to wait for; the client is told."""
    live = Live(speak("a"), drain_s=600.0)
    with live.connect() as client:
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{")
        wait_until(lambda: live.num_running == 1)  # its head has been read
        live.ask_to_stop()
        answer = client.makefile("rb").read()
    live.stop()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nretry-after: 1\r\n" in answer


def test_a_client_that_does_not_read_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is dropped when its time is up. Its request was cancelled in the middle, with tracebacks in the log."""
    monkeypatch.setattr(listen, "GRACE_S", 0.3)
    much = [Delta(0, "x" * 10_000, (1,))] * 2000
    live = Live(lambda _: [Prompted(0, (1,), 0), *much, Pause()])
    live.shrink_send_buffers()
    body = b'{"prompt":"a","stream":true}'
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    with live.connect(num_unread=4096) as client:
        client.sendall(head + body)
        wait_until(lambda: any(each.flow.write_paused for each in live.connections))
        live.stop()
    assert not live.is_running
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_clean_stop_is_no_death() -> None:
    """Exit code 0, and no process left: what follows on the server's own stderr is its end."""
    with serving("--runner", "fake") as served:
        assert served.process.poll() is None
    assert served.process.returncode == 0
    assert not any("stopping" in line for line in served.log), "nobody is waited for"


def stop_while_streaming(drain_timeout: str, *signals: signal.Signals) -> Served:
    """A server with one stream that gets these signals: the stream ends with an error event, the exit is clean."""
    arguments = ("--context-length", "500000", "--drain-timeout", drain_timeout)
    body = {"prompt": "a", "stream": True, "max_tokens": 490_000, "logit_bias": {"256": -100}}
    with (
        serving("--runner", "fake", *arguments) as served,
        httpx2.Client(base_url=served.url, timeout=PATIENCE_S) as client,
        client.stream("POST", "/v1/completions", json=body) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        for each in signals:
            served.process.send_signal(each)
        *_, error, done = [line for line in lines if line]
        # The one more signal that `serving` ends with would count as a second one of a process that is ending.
        served.process.wait(PATIENCE_S)
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "unavailable"
    assert done == "data: [DONE]"
    assert served.process.returncode == 0
    return served


def test_streams_get_their_time_and_then_an_error_event() -> None:
    """SIGTERM: what can finish does; what cannot is told."""
    served = stop_while_streaming("0.5", signal.SIGTERM)
    assert any("stopping: running requests (1) have 0.5 s" in line for line in served.log)


def test_a_second_signal_means_now() -> None:
    stop_while_streaming("600", signal.SIGTERM, signal.SIGINT)


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit")
def test_a_limit_of_open_files_that_nothing_fits_in_is_said_plainly() -> None:
    """It ended in a traceback, or did not end."""
    program = (
        "import resource, sys\n"
        "from segue.cli import main\n"
        "import segue.assembly.server\n"
        "sys.argv = ['segue', 'serve', '--runner', 'fake', '--port', '0']\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert (
        ended.stderr == "segue: Only 20 files may be open, and a server needs more (ulimit -n).\n"
    )
