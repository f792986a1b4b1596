"""What is said about a body that cannot be read."""

import pytest

from segue.errors import MalformedBody
from segue.server.json_body import decode

NOT_JSON = "The body is not valid JSON: "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The body is empty: it must be a JSON object."),
        (b'{"a": "\xff"}', f"{NOT_JSON}it is not UTF-8."),
        (b'{"prompt": "x"', f"{NOT_JSON}it ends too early."),
        (b'{"a": "\\ud83d"}', rf'{NOT_JSON}half of a UTF-16 pair, near "{{\"a\": \"\\ud83d\"}}".'),
        (b'["\\uD83D\\n"]', rf'{NOT_JSON}half of a UTF-16 pair, near "[\"\\uD83D\\n\"]".'),
        (b'{"a": "\\ud83d', f"{NOT_JSON}it ends too early."),
        (b'{"n": NaN}', rf'{NOT_JSON}invalid character (byte 6), near "{{\"n\": NaN}}".'),
        (b"{'n': 1}", f"{NOT_JSON}object keys must be strings (byte 1), near \"{{'n': 1}}\"."),
        (b'{"n": 1e400}', rf'{NOT_JSON}a number is out of range, near "{{\"n\": 1e400}}".'),
    ],
)
def test_it_is_said_what_is_wrong_and_where(body: bytes, message: str) -> None:
    with pytest.raises(MalformedBody) as error:
        decode(body)
    assert error.value.message == message


def test_a_number_of_too_many_digits_is_shown_in_part() -> None:
    with pytest.raises(MalformedBody, match=r'out of range, near .*\\"seed\\":99') as error:
        decode(b'{"seed":%b}' % (b"9" * 5000))
    assert len(error.value.message) < 120


def test_a_byte_order_mark_is_passed_over() -> None:
    assert decode(b'\xef\xbb\xbf{"prompt": "x"}') == {"prompt": "x"}
    with pytest.raises(MalformedBody, match="empty"):
        decode(b"\xef\xbb\xbf")
