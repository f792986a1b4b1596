import io
import json
import logging
import os
import sys
import threading
from pathlib import Path

import pytest

from segue import logs
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines are waited for, however busy the machine is."""
    monkeypatch.setattr(logs, "_LAST_WORDS_S", PATIENCE_S)


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2J",
        "a\r\nINFO segue: all is well",
        "\x9b31m",
        "\u202eevil",
        "\u2028",
        "\x00",
        "\ud800",
    ],
)
def test_no_text_can_steer_a_terminal_or_begin_a_line(text: str) -> None:
    escaped = logs.escape(text)
    assert escaped.isprintable()
    assert len(escaped.splitlines()) == 1
    escaped.encode()
    if text != "\ud800":  # part of a name that is not UTF-8, which a stream can write
        assert logs.printable(text) == escaped


def test_names_that_are_not_utf_8_are_left_to_the_stream() -> None:
    assert logs.printable("\udcff\x1b") == "\udcff\\x1b"


def test_a_text_of_several_lines_keeps_them_and_steers_nothing() -> None:
    assert (
        logs.printable_lines("a\tb\r\nc\rd\x1b[2J\n\x9b\x7f") == "a\tb\r\nc\\rd\\x1b[2J\n\\x9b\\x7f"
    )


def test_json_steers_nothing_and_means_the_same() -> None:
    value = {"text": "é\x1b\x7f\x9b\u2028\u202e\n"}
    line = logs.printable_json(value)
    assert line.isprintable()
    assert "é" in line
    assert json.loads(line) == value


def test_ordinary_text_stays_as_it_is() -> None:
    assert logs.escape("größer → 東京 \\n [red]") == "größer → 東京 \\n [red]"


def test_records_and_tracebacks() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.Formatter("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info("model %s", "x\nERROR forged")
    try:
        raise ValueError("y\nERROR forged\x1b[2J")
    except ValueError:
        logger.exception("it failed")
    first, second, *trace = out.getvalue().splitlines()
    assert first == "INFO model x\\nERROR forged"
    assert second == "ERROR it failed"
    assert all(line.startswith("    ") for line in trace)
    assert "\x1b" not in out.getvalue()


class Stuck(logging.Handler):
    """As a pipe is whose reader stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.go.wait(PATIENCE_S)
        self.lines.append(record.getMessage())


def test_a_log_that_nobody_reads_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MAX_WAITING", 10)
    stuck = Stuck()
    handler = logs.Background(stuck)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for number in range(1000):
        logger.info("line %d", number)
    stuck.go.set()
    handler.finish()
    assert 10 <= len(stuck.lines) <= 12
    assert stuck.lines[0] == "line 0"


def test_lines_logged_so_far_are_written_before_what_follows() -> None:
    stuck = Stuck()
    handler = logs.Background(stuck)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.info("one")
    logger.info("two")
    stuck.go.set()
    handler.catch_up()
    assert stuck.lines == ["one", "two"]
    handler.finish()


def test_what_was_dropped_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MAX_WAITING", 2)
    stuck = Stuck()
    handler = logs.Background(stuck)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    for number in range(10):
        logger.info("line %d", number)
    stuck.go.set()
    wait_until(lambda: len(stuck.lines) >= 2)
    logger.info("last")
    handler.finish()
    assert any("lines before this one were dropped" in line for line in stuck.lines)
    assert "last" in stuck.lines[-1]


def our_line(capfd: pytest.CaptureFixture[str]) -> str:
    """Of the logger of these tests: a server of another may log that a client left it only now."""
    (line,) = [each for each in capfd.readouterr().err.splitlines() if "segue.x" in each]
    return line


def test_an_object_a_line_for_programs(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_is_json", False)  # so that it is so again afterwards
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.set_up("INFO", as_json=True)
        try:
            raise ValueError("of this \x1b[31m kind")
        except ValueError:
            logging.getLogger("segue.x").exception("it failed:\n%s", "\u2028")
        line = json.loads(our_line(capfd))
        assert line["message"] == "it failed:\n\u2028"
        assert line["level"] == "error"
        assert "ValueError" in line["exception"]
        assert logs.are_json()
        logs.set_up("INFO")
        logging.getLogger("segue.x").info("hello")
        assert our_line(capfd).endswith("INFO    segue.x: hello")
        assert not logs.are_json()
    finally:
        root.handlers[:], root.level = handlers, level


def test_lines_of_several_server_processes_have_its_number(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_is_json", False)  # so that it is so again afterwards
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.set_up("INFO", as_json=False, process=2)
        logging.getLogger("segue.x").info("hello")
        assert our_line(capfd).endswith("INFO    segue.x [2]: hello")
        logs.set_up("INFO", as_json=True, process=2)
        logging.getLogger("segue.x").info("hello")
        assert json.loads(our_line(capfd))["process"] == 2
    finally:
        root.handlers[:], root.level = handlers, level


def test_a_library_that_configures_logging_does_not_silence_ours() -> None:
    """vLLM does when it is imported: `dictConfig` closes every handler there is."""
    written = Stuck()
    written.go.set()
    handler = logs.Background(written)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logging.shutdown([lambda: handler])
    logger.info("after")
    handler.finish()
    assert written.lines == ["after"]


def test_a_line_is_written_without_the_lock_of_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.13 `Handler.handle` takes it without asking whether there is one: no server started there."""

    def fail(*_: object) -> None:
        raise AssertionError("logging's own way was taken")

    monkeypatch.setattr(logging.Handler, "handle", fail)
    read, write = os.pipe()
    handler = logs.DirectHandler(write, begin=b"")
    assert handler.lock is None
    record = logging.LogRecord("segue", logging.INFO, "", 0, "a line", (), None)
    assert handler.handle(record)
    handler.addFilter(lambda record: False)
    assert not handler.handle(record)
    os.close(write)
    with open(read, encoding="utf-8") as file:
        assert file.read() == "a line\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudoterminals")
def test_in_a_terminal_a_line_takes_the_place_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines began behind it: "Loading smollm2 ━━━━━━ 0 s23:33:02 INFO"."""
    monkeypatch.setenv("TERM", "xterm")
    read, write = os.openpty()
    record = logging.makeLogRecord({"msg": "runs on the CPU runner"})
    try:
        logs.DirectHandler(write, logs.line_begin(write)).handle(record)
        shown = b""
        while not shown.endswith(b"\n"):  # a terminal may give it in pieces
            shown += os.read(read, 100)
        assert shown == b"\r\x1b[2Kruns on the CPU runner\r\n"
        monkeypatch.setenv("TERM", "dumb")
        assert logs.line_begin(write) == b""
    finally:
        os.close(read)
        os.close(write)


def test_in_a_file_a_line_begins_with_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with (tmp_path / "log").open("wb") as file:
        assert logs.line_begin(file.fileno()) == b""
