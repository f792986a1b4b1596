import io
import logging

import pytest

from segue import logs


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
