"""Log lines that clients cannot forge, written without delaying the server.

Text from a request is escaped: it stays on one line and holds no control characters. A thread writes the lines. If the
reader of stderr stops reading, log lines are dropped, and requests go on.
"""

import atexit
import contextlib
import json
import logging
import os
import queue
import re
import sys
import threading
from datetime import UTC, datetime

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s{}: %(message)s"
# C0, DEL and C1 control terminals; the others break lines or change the reading direction.
_NEVER_PRINTED = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NEVER_IN_TEXT = re.compile("(?![\t\n]|\r\n)[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NEVER_IN_LOG = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_FACTS = "facts"  # `extra` of a record: values by name, which are members of its line in JSON
_ERASE_LINE = b"\r\x1b[2K"
_MAX_WAITING = 10_000
_LAST_WORDS_S = 1.0
_is_json = False  # what was set up


def set_up(
    level: int | str,
    in_background: bool = False,
    as_json: bool = False,
    process: int | None = None,
) -> None:
    """Set up logging. `in_background`: a thread writes; else each line is written before the call returns.

    `process`: the number of this one of several server processes.
    """
    global _is_json
    _is_json = as_json
    descriptor = sys.stderr.fileno()
    handler: logging.Handler = DirectHandler(descriptor, b"" if as_json else line_begin(descriptor))
    text = _FORMAT.format("" if process is None else f" [{process}]")
    handler.setFormatter(JsonFormatter(process) if as_json else Formatter(text, "%H:%M:%S"))
    if in_background:
        handler = Background(handler)
        atexit.register(handler.finish)
    logging.basicConfig(level=level, handlers=[handler], force=True)


def line_begin(descriptor: int) -> bytes:
    """What a line begins with: in a terminal a bar of progress may be on it, of this process or of its parent."""
    is_dumb = os.name == "nt" or os.environ.get("TERM", "dumb") == "dumb"
    return b"" if is_dumb or not os.isatty(descriptor) else _ERASE_LINE


def are_json() -> bool:
    """Whether lines are JSON, as was set up here: a worker, which may be there before, is told."""
    return _is_json


def end_with(words: str) -> bool:
    """Write why the program ends as the last line, if lines are JSON; returns whether they are."""
    if _is_json:
        logging.getLogger("segue").critical("%s", words)
    catch_up()
    return _is_json


def catch_up() -> None:
    """Wait a moment until lines logged so far are written: what is printed next is then the last."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Background):
            handler.catch_up()


def escape(text: str) -> str:
    return _NEVER_IN_LOG.sub(_escaped, text)


def printable(text: str) -> str:
    """For what a command prints: values of model files, and names of these, may hold anything. A name that is not UTF-8
    is left to the stream, which knows whether a program reads it."""
    return _NEVER_PRINTED.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, such as a model's answer: line breaks and tabs stay."""
    return _NEVER_IN_TEXT.sub(_escaped, text)


def printable_json(value: object) -> str:
    """As JSON on one line, which means the same to a program and steers no terminal."""
    text = json.dumps(value, ensure_ascii=False)
    return _NEVER_PRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


class Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escape(record.message)
        return super().formatMessage(record)

    def formatException(self, info: object) -> str:
        """The traceback, indented: no line of it can look like a log line."""
        lines = super().formatException(info).split("\n")  # type: ignore[arg-type]
        return "\n".join("    " + escape(line) for line in lines)


class JsonFormatter(logging.Formatter):
    """One JSON object per line, for programs that collect logs."""

    def __init__(self, process: int | None) -> None:
        super().__init__()
        self._process = {} if process is None else {"process": process}

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": moment,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._process,
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)  # ASCII, so it holds no control characters


class DirectHandler(logging.Handler):
    """Writes to a file descriptor, past Python's buffers and locks.

    Whoever is writing to a pipe that nobody reads holds them, and the interpreter waits for them when it ends.
    """

    def __init__(self, descriptor: int, begin: bytes) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._begin = begin

    def createLock(self) -> None:  # called by logging; no lock is needed, as one line is one write
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """As logging's own, which since Python 3.13 fails without a lock."""
        found = self.filter(record)
        if found:
            self.emit(found if isinstance(found, logging.LogRecord) else record)
        return bool(found)

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        data = memoryview(self._begin + line)
        with contextlib.suppress(OSError):  # nobody reads the log any more
            while data:
                data = data[os.write(self._descriptor, data) :]


class Background(logging.Handler):
    """Queues records for a thread that passes them to another handler."""

    def __init__(self, behind: logging.Handler) -> None:
        super().__init__()
        self._behind = behind
        self._waiting: queue.Queue[logging.LogRecord | threading.Event | None] = queue.Queue(
            _MAX_WAITING
        )
        self._num_dropped = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        # Its arguments may change before it is written.
        record.msg, record.args = record.getMessage(), None
        if self._num_dropped:
            record.msg += f" ({self._num_dropped} lines before this one were dropped)"
        try:
            self._waiting.put_nowait(record)
            self._num_dropped = 0
        except queue.Full:
            self._num_dropped += 1

    def catch_up(self) -> None:
        """Wait a moment for queued records to be written."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._waiting.put(written, timeout=_LAST_WORDS_S)
            written.wait(_LAST_WORDS_S)

    def finish(self) -> None:
        """Wait a moment for queued records to be written. Then none is any more.

        Not `close`: a library that configures logging by a dictionary closes every handler there is.
        """
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=_LAST_WORDS_S)
            self._thread.join(_LAST_WORDS_S)

    def _write(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            if isinstance(waiting, threading.Event):
                waiting.set()
            else:
                self._behind.handle(waiting)
