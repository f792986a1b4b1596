"""Log lines that nobody can forge: whatever a request put into a message stays on one line, readable and inert."""

import logging
import re
import sys

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
# C0, DEL and C1 steer terminals; the others break lines or turn the reading direction.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def set_up(level: int | str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Formatter(_FORMAT, "%H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def escape(text: str) -> str:
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


class Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = escape(record.message)
        return super().formatMessage(record)

    def formatException(self, info: object) -> str:
        """Indented, so that no line of it can pass for a record."""
        lines = super().formatException(info).split("\n")  # type: ignore[arg-type]
        return "\n".join("    " + escape(line) for line in lines)
